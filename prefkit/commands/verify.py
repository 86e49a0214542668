"""`prefkit verify`: verdicts for the lines of a file."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from prefkit.commands.arguments import Parser, seconds, whole

ABOUT = "Judge each line of a file of answers by running it: one JSON verdict a line, in input order, on standard output."
EXAMPLE = "prefkit verify answers.jsonl --cache verdicts.sqlite --summary > verdicts.jsonl"
MOST_WORKERS = 4


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE.jsonl",
        help='lines like {"verifier": "sql", "database": "x.sqlite", "gold": "SELECT …", "answer": "…"}; - for standard input',
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

    path = "/dev/stdin" if options.file == "-" else options.file
    workers = options.workers or min(cores(), MOST_WORKERS)
    verdicts = verdicts_for_lines(path, workers, options.cache, options.timeout, options.min_isolation)
    statuses: Counter[str] = Counter()
    start = time.monotonic()
    # Where the verdicts themselves go to the terminal, a moving view would run into them.
    watched = sys.stderr.isatty() and not sys.stdout.isatty()
    with Progress() if watched else quiet() as progress:
        for verdict in progress.track(verdicts, "lines"):
            statuses[verdict["status"]] += 1
            sys.stdout.write(json.dumps(verdict) + "\n")
            # A reader in a pipe sees verdicts as they come.
            sys.stdout.flush()
    if options.summary:
        print(summary(statuses, time.monotonic() - start), file=sys.stderr)
    return 0


def summary(statuses: Counter[str], took_s: float) -> str:
    """One line: how many lines, the statuses, and the share that passed of those that have a score."""
    from prefkit.progress import duration
    from prefkit.verify.verdict import SCORED

    lines, scored = statuses.total(), sum(statuses[status] for status in SCORED)
    counts = ", ".join(f"{count} {status}" for status, count in statuses.most_common()) or "none"
    share = f"; {statuses['PASS'] / scored:.1%} of {scored} scored passed" if scored else ""
    return f"{lines} line{'' if lines == 1 else 's'}: {counts}{share}; {duration(took_s)}"
