"""`prefkit verify FILE.jsonl`: one verdict for each line, in input order, whatever the line holds."""

from __future__ import annotations

import codecs
import json
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from prefkit.errors import DataError, IsolationUnavailable
from prefkit.names import nearest
from prefkit.sandbox.probe import TIERS
from prefkit.verify.json_text import shown
from prefkit.verify.line_fields import COMMON, must, refuse_misspelt
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.verdict import Status, Verdict
from prefkit.verify.verifier import VERIFIERS, Check, Source, Unverifiable, Verifier

_MARKS = {"sql": ({"gold", "schema"}, {"gold", "database"}), "python": ({"tests"}, {"entry", "cases"})}
"""Fields by which a line that names no verifier is known."""


def verdicts_for_lines(
    path: str | Path,
    workers: int = 2,
    cache: str | Path | None = None,
    timeout_s: float = 2.0,
    min_isolation: str | None = None,
    verifiers: Iterable[Verifier] = (),
) -> Iterator[dict[str, Any]]:
    """Verdicts as plain dicts (`Verdict.to_dict`), one for each line of a JSON-lines file; empty lines are passed over.

    A line: {"id": …, "verifier": kind, "answer": text, "timeout": seconds, …}; the other fields are the verifier's (see its `read`). A
    relative path is looked for beside the file, then in the current folder. Fields that no verifier knows are the user's own, unless they
    look like one that it knows, misspelt. A line that cannot be read gets REFUSED with the line's
    number and what was expected. `min_isolation` refuses verifiers that run with less than that tier; `verifiers` are taken in place of
    the default of their kind. Raises DataError when the file itself cannot be read.
    """
    path = Path(path)
    if min_isolation is not None and min_isolation not in TIERS:
        raise DataError(f"min_isolation is one of {', '.join(TIERS)}, not {min_isolation!r}")
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    with file, Scheduler(workers, Path(cache) if cache else None, min_isolation, verifiers) as scheduler:
        refused: deque[tuple[int, Verdict]] = deque()
        source = Source(path.resolve().parent, timeout_s)
        position = 0

        def checks() -> Iterator[Check]:
            nonlocal position
            for number, raw in enumerate(file, 1):
                if not raw.strip():
                    continue
                position += 1
                check = _read_line(raw, number, source, scheduler, min_isolation)
                if isinstance(check, Verdict):
                    refused.append((position, check))
                else:
                    yield check

        # Lines that are refused never reach the scheduler: they are put back in their places.
        given = 0
        for verdict in scheduler.verify(checks()):
            while refused and refused[0][0] == given + 1:
                given += 1
                yield refused.popleft()[1].to_dict()
            given += 1
            yield verdict.to_dict()
        while refused:
            yield refused.popleft()[1].to_dict()


def _read_line(raw: bytes, number: int, source: Source, scheduler: Scheduler, min_isolation: str | None) -> Check | Verdict:
    """The check that a line asks for, or the verdict that says why there is none."""
    line_id = str(number)
    try:
        line = json.loads(raw.strip().removeprefix(codecs.BOM_UTF8 if number == 1 else b"").decode("utf-8"))
        if not isinstance(line, dict):
            raise ValueError(f"expected a JSON object, one a line, not {shown(line)}")
        given = line.get("id")
        if isinstance(given, bool | list | dict):
            raise must(line, "id", "text or a number")
        line_id = line_id if given is None else str(given)
        return _check(line, line_id, source, scheduler, min_isolation)
    except Unverifiable as error:
        return Verdict(line_id, Status.UNVERIFIABLE, None, str(error), tier="")
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 at byte {error.start + 1}"
    except json.JSONDecodeError as error:
        reason = f"not JSON: {error.msg} at column {error.colno}"
    except (ValueError, RecursionError, IsolationUnavailable) as error:
        reason = str(error) or "too deeply nested"
    return Verdict(line_id, Status.REFUSED, None, f"line {number}: {reason}", tier="")


def _check(line: dict[str, Any], line_id: str, source: Source, scheduler: Scheduler, min_isolation: str | None) -> Check:
    """Raises ValueError where the line breaks the format, Unverifiable where its task cannot be judged by."""
    kind = line.get("verifier")
    if kind is None:
        kind = next((name for name, marks in _MARKS.items() if any(mark <= line.keys() for mark in marks)), None)
    if not isinstance(kind, str) or kind not in VERIFIERS:
        if "verifier" not in line:
            raise ValueError(f'the line names no "verifier"; there is: {", ".join(VERIFIERS)}')
        near = nearest(kind.lower(), VERIFIERS)[:1] if isinstance(kind, str) else []
        mend = f'did you mean "{near[0]}"? ' if near else ""
        raise ValueError(f"unknown verifier {shown(kind)}; {mend}there is: {', '.join(VERIFIERS)}")
    verifier = scheduler.verifier(kind)
    if not isinstance(line.get("answer"), str):
        refuse_misspelt(line, COMMON)
        raise must(line, "answer", "text")
    refuse_misspelt(line, (*COMMON, *verifier.fields))
    check = verifier.read(line, line_id, source)
    tier = scheduler.tier(scheduler.verifier_of(check))
    if min_isolation is not None and tier and TIERS.index(tier) > TIERS.index(min_isolation):
        raise ValueError(f"the {kind} verifier runs at tier {tier}, which is less than the {min_isolation} asked for")
    return check
