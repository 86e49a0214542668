"""`prefkit audit`: execute a run's verdicts, pairs and trajectories again, and compute every figure of its report again."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefkit.commands.arguments import Parser, whole
from prefkit.errors import RunError

if TYPE_CHECKING:
    from prefkit.data.findings import Finding, Findings

ABOUT = (
    "Execute every verdict, pair and trajectory of a run again, compute every figure of its report and ledger again, and list what "
    "disagrees. Needs no model and no GPU, and changes nothing."
)
EXAMPLE = "prefkit audit runs/sql-gen-0123456789 --sample 2000 --json audit.json"
MOST_WORKERS = 4
MOST_LINES = 200
GROUPS = {
    "verdicts": "verdicts of rollouts, executed again",
    "answers": "answers of evaluations, executed again",
    "references": "golds in training rows, executed again",
    "golds": "golds of the readiness check, executed again",
    "databases": "databases",
    "rollouts": "rollouts against their questions and prompts",
    "pairs": "pairs",
    "trajectories": "trajectories",
    "figures": "figures",
    "report": "lines of the report and of the card of pairs",
    "stages": "stages against what they were made from",
    "files": "files against their hashes",
}


def arguments(parser: Parser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder, or one that `prefkit evaluate` made")
    parser.add_argument("--sample", type=whole(1), metavar="N", help="execute N answers drawn at random (else all)")
    parser.add_argument("--seed", type=whole(0), metavar="N", help="draw the same sample again (else another each time)")
    parser.add_argument(
        "--database", action="append", metavar="FILE", help="where the run's own database lies now (again for each data instance)"
    )
    parser.add_argument("--questions", metavar="FILE", help="where the run's own questions lie now")
    parser.add_argument("--workers", type=whole(1), metavar="N", help=f"processes that execute (else one a core, at most {MOST_WORKERS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was found as JSON")


def run(options: Any) -> int:
    from prefkit.audit.run import audit
    from prefkit.commands.machine import cores
    from prefkit.progress import Progress
    from prefkit.verify.scheduler import Scheduler

    if (options.database is None) != (options.questions is None):
        raise RunError("--database and --questions go together: a run's own data is both.")
    data = (options.database, options.questions) if options.database else None
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    workers = options.workers or min(cores(), MOST_WORKERS)
    with Progress() as progress, Scheduler(workers=workers) as scheduler:
        findings = audit(options.run, scheduler, sample=options.sample, seed=seed, data=data, progress=progress)
    if options.json is not None:
        from prefkit.files import write_text

        text = json.dumps(result(findings, options.run, options.sample, seed), indent=2, ensure_ascii=True)
        write_text(options.json, text + "\n")
    show(findings, options.run)
    return 0 if findings.agrees else 1


def result(findings: Findings, run: Path, sample: int | None, seed: int) -> dict[str, Any]:
    """What was found as plain values."""
    return {
        "run": str(run),
        "agrees": findings.agrees,
        "sample": sample,
        "seed": seed if sample is not None else None,
        "checked": {group: {"checked": count, "agree": findings.agreeing(group)} for group, count in sorted(findings.checked.items())},
        "disagreements": [found.to_dict() for found in findings.disagreements],
        "agreed_when_run_alone": [found.to_dict() for found in findings.steadied],
        "not_checked": [{"what": reason, "count": count or None} for reason, count in findings.not_checked.items()],
    }


def show(findings: Findings, run: Path) -> None:
    """The disagreements, what was checked, what was not, and the outcome last."""
    from prefkit.commands.terminal import console, table

    limits = [found for found in findings.disagreements if found.near_limit]
    _list("", [found for found in findings.disagreements if not found.near_limit])
    _list("near a time or memory limit, after a second execution alone:", limits)
    _list("near a limit, and in agreement when executed alone (no disagreement):", findings.steadied)
    groups = [group for group in GROUPS if findings.checked[group]]
    rows = [(GROUPS[group], f"{findings.checked[group]:,}", f"{findings.agreeing(group):,}") for group in groups]
    console().print(table(("checked", "how many", "agree"), rows, right=(1, 2)))
    if findings.not_checked:
        print("not checked:")
        for reason, count in findings.not_checked.items():
            print(_safe(f"  {reason}" + (f": {count:,}" if count else "")))
    print()
    count = len(findings.disagreements)
    outcome = "everything that was checked agrees" if findings.agrees else f"{count} disagreement{'s' if count > 1 else ''}"
    print(_safe(f"{run}: {outcome}"))


def _list(title: str, found: list[Finding]) -> None:
    if not found:
        return
    if title:
        print(title)
    for one in found[:MOST_LINES]:
        print(_safe(one.line()))
    if len(found) > MOST_LINES:
        print(f"… and {len(found) - MOST_LINES:,} more (--json FILE has them all)")
    print()


def _safe(text: str) -> str:
    """One line on which nothing of a hostile file moves the cursor."""
    from prefkit.commands.terminal import shown

    return shown(text).replace("\n", " ")
