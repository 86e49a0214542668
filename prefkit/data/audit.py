"""Execute every answer of a run again and compare what comes out with the verdict that is written. No model, no GPU.

| written                                  | against                                                                                   |
|------------------------------------------|-------------------------------------------------------------------------------------------|
| status, score                            | the new verdict's, always                                                                 |
| reason, feedback, key                    | the new verdict's, where the same verifier's rules and engine gave the old one            |
| data_hash, or the keys where there is none | the databases as they are now; a changed one is one finding, not one for each of its rows |

A verdict near a limit (TIMEOUT, LIMIT, INFRA, written or found) depends on the machine: where it disagrees, the answer is executed once
more with nothing beside it, and only what disagrees then counts.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from prefkit.data.findings import Findings, Problem, same
from prefkit.progress import Progress
from prefkit.tasks.base import Example, Task
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.verdict import Status, Verdict

NEAR_LIMIT = frozenset({Status.TIMEOUT, Status.LIMIT, Status.INFRA})
Row = dict[str, Any]
SAID = ("reason", "feedback", "trust", "key", "data_hash")


@dataclass(slots=True)
class Item:
    """One answer to execute again.

    group, file, row: where its verdict stands. written: the verdict's columns there; what is missing in it is not compared. found: the
    new verdict, None where the answer was not executed. compared: what must be the same beside status and score.
    """

    group: str
    file: str
    row: str
    example: Example
    answer: str
    written: Row
    found: Verdict | None = None
    compared: tuple[str, ...] = SAID

    @property
    def status(self) -> str:
        """What holds: the status found, or the written one where the answer was not executed."""
        return str(self.found.status) if self.found is not None else str(self.written["status"])

    @property
    def score(self) -> float | None:
        """What holds, like `status`."""
        return self.found.score if self.found is not None else self.written["score"]

    @property
    def judged(self) -> Row:
        """The written verdict with the status and score that hold; reason and feedback as found, where they can be compared."""
        if self.found is None:
            return self.written
        said = {name: getattr(self.found, name) for name in ("reason", "feedback") if name in self.compared and same_rules(self)}
        return {**self.written, "status": self.status, "score": self.score, **said}


def drawn(items: Sequence[Item], sample: int | None, seed: int, findings: Findings) -> list[Item]:
    """The items to execute: all, or `sample` of them drawn with `seed`; what is left out is said."""
    if sample is None or sample >= len(items):
        return list(items)
    findings.skip(f"answers that were not drawn into the sample of {sample} (--seed {seed} draws the same)", len(items) - sample)
    chosen = sorted(random.Random(seed).sample(range(len(items)), sample))
    return [items[number] for number in chosen]


def execute(items: Sequence[Item], task: Task, scheduler: Scheduler, findings: Findings, progress: Progress) -> None:
    """Execute the items, give each its new verdict, and record every disagreement."""
    items = list(items)
    checks = (task.check(item.example, item.answer, id=str(number)) for number, item in enumerate(items))
    with progress.task("answers executed again", len(items)) as shown:
        for item, verdict in zip(items, scheduler.verify(checks), strict=True):
            item.found = verdict
            shown.advance(1, disagree=len(findings.disagreements))
    changed = _changed_data(items, findings)
    near: list[Item] = []
    for item in items:
        if item.found is None:
            continue
        problems = _problems(item, changed)
        if problems and _near_limit(item):
            near.append(item)
        else:
            findings.row(item.group, item.file, item.row, problems)
    _alone(near, task, changed, findings, progress)
    _tell_other_rules(items, findings)


def _alone(items: Sequence[Item], task: Task, changed: set[str], findings: Findings, progress: Progress) -> None:
    """Execute what disagrees near a limit once more, one answer at a time."""
    if not items:
        return
    with Scheduler(workers=1) as scheduler:
        for item in progress.track(items, "near a limit, alone"):
            first = item.found
            item.found = next(iter(scheduler.verify([task.check(item.example, item.answer)])))
            problems = _problems(item, changed)
            if findings.row(item.group, item.file, item.row, problems, near_limit=True) and first is not None:
                findings.steadied.append(_steadied(item, first))


def _steadied(item: Item, first: Verdict) -> Any:
    from prefkit.data.findings import Finding

    return Finding(item.group, item.file, item.row, "status", item.written["status"], str(first.status), near_limit=True)


def _near_limit(item: Item) -> bool:
    return bool({item.status, item.written["status"]} & NEAR_LIMIT)


def _problems(item: Item, changed: set[str]) -> list[Problem]:
    written, found = item.written, item.found
    assert found is not None
    problems: list[Problem] = []
    if written["status"] != str(found.status):
        problems.append(("status", written["status"], str(found.status)))
    if not same(_number(written["score"]), found.score):
        problems.append(("score", written["score"], found.score))
    if not same_rules(item):
        return problems
    data = item.example.database in changed
    if problems or data:  # the reason says the same as the status; and of other data everything else may differ
        return problems
    for name in item.compared:
        if written.get(name) is not None or (name in written and name == "feedback"):
            value = getattr(found, name)
            if written[name] != value:
                problems.append((name, written[name], value))
    return problems


def same_rules(item: Item) -> bool:
    """Whether the written verdict names the verifier, engine and isolation that gave the new one, or names none."""
    found = item.found
    if found is None:
        return False
    versions, tier = item.written.get("versions"), item.written.get("tier")
    if tier is not None and tier != found.tier:
        return False
    return versions is None or versions == json.dumps(found.versions, sort_keys=True)


def _changed_data(items: Iterable[Item], findings: Findings) -> set[str]:
    """The databases whose content is another than that of every verdict on them; each is one finding. What cannot be executed because its
    database is gone keeps its written verdict."""
    by_database: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        by_database[item.example.database].append(item)
    changed = set()
    for name, those in by_database.items():
        problem = _change(those)
        if findings.row("databases", "databases", name, [problem] if problem else []):
            continue
        changed.add(name)
        lost = [item for item in those if item.found is not None and not item.found.data_hash]
        for item in lost:
            item.found = None
        if lost:
            findings.skip(f"answers whose database {name} cannot be used", len(lost))
    return changed


def _change(items: Sequence[Item]) -> Problem | None:
    """How the database of these verdicts differs from the one that they were given on; None where it does not, or not for all of them."""
    about = f"of {len(items)} verdicts"
    hashed = [(item.written["data_hash"], item.found) for item in items if item.found and item.written.get("data_hash")]
    if hashed and all(written != found.data_hash for written, found in hashed):
        written, found = hashed[0]
        return f"data_hash {about}", written, found.data_hash or found.reason
    named = [item for item in items if "key" in item.compared and item.written.get("key") and same_rules(item)]
    keyed = [(item.written["key"], item.found) for item in named if item.found]
    if not hashed and len(keyed) > 1 and all(written != found.key for written, found in keyed):
        found = keyed[0][1]
        return f"keys (database, golds, time limit) {about}", "other keys", found.key if found.data_hash else found.reason
    return None


def _tell_other_rules(items: Iterable[Item], findings: Findings) -> None:
    for item in items:
        if item.found is not None and not same_rules(item):
            written = str(item.written.get("versions"))[:80]
            findings.skip(f"reason, feedback and key of verdicts by another verifier, engine or tier ({written})", 1)


def _number(value: Any) -> float | None:
    """A score as Parquet's readers give it: a missing one is None or NaN."""
    return None if value is None or value != value else float(value)
