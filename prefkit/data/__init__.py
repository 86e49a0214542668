"""From answers to rows: rollouts with verdicts, preference pairs, corrections, readiness."""
