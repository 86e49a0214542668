"""`prefkit verify`: verdicts for the lines of a file."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefkit.commands.arguments import Parser, seconds, whole

if TYPE_CHECKING:
    from prefkit.verify.judge import JudgeVerifier

ABOUT = "Judge each line of a file of answers by running it: one JSON verdict a line, in input order, on standard output."
EXAMPLE = """prefkit verify answers.jsonl --cache verdicts.sqlite --summary > verdicts.jsonl

answers.jsonl holds one JSON object a line, of any kind (docs/verification.md has them all):
  {"verifier": "sql", "schema": "CREATE TABLE t(x)", "gold": "SELECT 2", "answer": "SELECT 1 + 1"}
  {"verifier": "python", "entry": "f", "cases": [[[1], 2]], "answer": "def f(x): return 2 * x"}"""
MOST_WORKERS = 4


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE.jsonl",
        help="answers to judge, one JSON object a line; - for standard input",
    )
    parser.add_argument("--workers", type=whole(1), metavar="N", help=f"processes that judge (else one a core, at most {MOST_WORKERS})")
    parser.add_argument("--cache", type=Path, metavar="F", help="a file that keeps verdicts between calls")
    parser.add_argument("--timeout", type=seconds, default=2.0, metavar="S", help="seconds for one query, where a line names none (2)")
    parser.add_argument(
        "--min-isolation", metavar="T", choices=("A", "B", "P"), help="refuse verifiers that run with less than this tier (A, B, P)"
    )
    parser.add_argument("--summary", action="store_true", help="at the end, the counts on standard error")


def run(options: Any) -> int:
    from prefkit.commands.machine import cores
    from prefkit.progress import Progress, quiet
    from prefkit.verify.lines import verdicts_for_lines
    from prefkit.verify.trust import EXECUTED

    path = "/dev/stdin" if options.file == "-" else options.file
    workers = options.workers or min(cores(), MOST_WORKERS)
    verdicts = verdicts_for_lines(path, workers, options.cache, options.timeout, options.min_isolation, [judge()])
    executed, opinions, reasons = Counter[str](), Counter[str](), Counter[str]()
    start = time.monotonic()
    # Where the verdicts themselves go to the terminal, a moving view would run into them.
    watched = sys.stderr.isatty() and not sys.stdout.isatty()
    with Progress() if watched else quiet() as progress:
        for verdict in progress.track(verdicts, "lines"):
            if verdict["trust"] in EXECUTED:
                executed[verdict["status"]] += 1
            else:
                opinions[verdict["status"]] += 1
                reasons[verdict["reason"]] += 1
            sys.stdout.write(json.dumps(verdict) + "\n")
            # A reader in a pipe sees verdicts as they come.
            sys.stdout.flush()
    if options.summary:
        print(summary(executed, opinions, reasons, time.monotonic() - start), file=sys.stderr)
    return 0


def judge() -> JudgeVerifier:
    """The judge that can run reward models, too: `verify` knows no models, so it is told how."""
    from prefkit.verify.judge import JudgeVerifier

    def reward_model(folder: Path) -> Any:
        from prefkit.models.reward_model import RewardModel

        return RewardModel(folder)

    return JudgeVerifier(open_reward_model=reward_model)


def summary(executed: Counter[str], opinions: Counter[str], reasons: Counter[str], took_s: float) -> str:
    """How many lines, the statuses, and the share that passed of those that have a score: a model's opinions (with their `reasons`) apart.

    A second line says how often the judge contradicted itself, where it saw pairs.
    """
    from prefkit.progress import duration
    from prefkit.verify.judge_orders import Orders

    statuses = executed + opinions
    lines = statuses.total()
    counts = ", ".join(f"{count} {status}" for status, count in statuses.most_common()) or "none"
    shares = [_share(executed, "scored passed"), _share(opinions, "rated by a model passed")]
    parts = [f"{lines} line{'' if lines == 1 else 's'}: {counts}", *filter(None, shares), duration(took_s)]
    return "\n".join(filter(None, ("; ".join(parts), Orders.of(reasons).words())))


def _share(statuses: Counter[str], words: str) -> str:
    from prefkit.verify.verdict import SCORED

    scored = sum(statuses[status] for status in SCORED)
    return f"{statuses['PASS'] / scored:.1%} of {scored} {words}" if scored else ""
