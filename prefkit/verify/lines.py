"""`prefkit verify FILE.jsonl`: one verdict for each line, in input order, whatever the line holds."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prefkit.errors import DataError
from prefkit.sandbox.limits import SqlLimits
from prefkit.sandbox.pool import WorkerPool
from prefkit.sandbox.probe import TIERS
from prefkit.sandbox.worker import Job
from prefkit.verify.scheduler import TIER, Scheduler
from prefkit.verify.sql import SqlCheck
from prefkit.verify.verdict import Status, Verdict

KINDS = ("sql",)
_COLUMNS = ("in_order", "any_order")
_MAX_TIMEOUT_S = 600.0


def verdicts_for_lines(
    path: str | Path, workers: int = 2, cache: str | Path | None = None, timeout_s: float = 2.0, min_isolation: str | None = None
) -> Iterator[dict[str, Any]]:
    """Verdicts as plain dicts (`Verdict.to_dict`), one for each line of a JSON-lines file; empty lines are passed over.

    A line: {"id": …, "verifier": "sql", "schema": SQL text | "database": path or [paths], "gold": query or [queries], "answer": text,
    "timeout": seconds, "columns": "in_order" | "any_order"}. A relative database path is looked for beside the file, then in the
    current folder. A line that cannot be read gets REFUSED with the line's number and what was expected. `min_isolation` refuses
    verifiers that run with less than that tier. Raises DataError when the file itself cannot be read.
    """
    path = Path(path)
    if min_isolation is not None and min_isolation not in TIERS:
        raise DataError(f"min_isolation is one of {', '.join(TIERS)}, not {min_isolation!r}")
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    with file, _Schemas(path.resolve().parent) as schemas, Scheduler(workers, Path(cache) if cache else None) as scheduler:
        refused: deque[tuple[int, Verdict]] = deque()
        position = 0

        def checks() -> Iterator[SqlCheck]:
            nonlocal position
            for number, raw in enumerate(file, 1):
                if not raw.strip():
                    continue
                position += 1
                check = _read_line(raw, number, timeout_s, min_isolation, schemas)
                if isinstance(check, SqlCheck):
                    yield check
                else:
                    refused.append((position, check))

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


def _read_line(raw: bytes, number: int, timeout_s: float, min_isolation: str | None, schemas: _Schemas) -> SqlCheck | Verdict:
    """The check that a line asks for, or the verdict that says why there is none."""
    line_id = str(number)
    try:
        line = json.loads(raw.decode("utf-8"))
        if not isinstance(line, dict):
            raise ValueError(f"expected a JSON object, found {type(line).__name__}")
        if line.get("id") is not None:
            line_id = str(line["id"])
        return _check(line, line_id, timeout_s, min_isolation, schemas)
    except _Unverifiable as error:
        return Verdict(line_id, Status.UNVERIFIABLE, None, str(error), tier=TIER)
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 at byte {error.start + 1}"
    except json.JSONDecodeError as error:
        reason = f"not JSON: {error.msg} at column {error.colno}"
    except (ValueError, RecursionError) as error:
        reason = str(error) or "too deeply nested"
    return Verdict(line_id, Status.REFUSED, None, f"line {number}: {reason}")


def _check(line: dict[str, Any], line_id: str, timeout_s: float, min_isolation: str | None, schemas: _Schemas) -> SqlCheck:
    """Raises ValueError where the line breaks the format, _Unverifiable where its database does."""
    kind = line.get("verifier", "sql" if "gold" in line and ("schema" in line or "database" in line) else None)
    if kind not in KINDS:
        raise ValueError(f"unknown verifier {kind!r}; there is: {', '.join(KINDS)}")
    if min_isolation is not None and TIERS.index(TIER) > TIERS.index(min_isolation):
        raise ValueError(f"the sql verifier runs at tier {TIER}, which is less than the {min_isolation} asked for")
    answer = line.get("answer")
    if not isinstance(answer, str):
        raise ValueError('"answer" must be text')
    golds = _texts(line, "gold")
    timeout = line.get("timeout", timeout_s)
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not (math.isfinite(timeout) and 0 < timeout <= _MAX_TIMEOUT_S):
        raise ValueError(f'"timeout" must be a number of seconds above 0 and up to {_MAX_TIMEOUT_S:g}')
    columns = line.get("columns", "in_order")
    if columns not in _COLUMNS:
        raise ValueError(f'"columns" is one of {", ".join(_COLUMNS)}')
    if ("schema" in line) == ("database" in line):
        raise ValueError('expected either "schema" (SQL text) or "database" (a path or a list of paths)')
    if "schema" in line:
        databases = tuple(schemas.build(text) for text in _texts(line, "schema"))
    else:
        databases = schemas.find(_texts(line, "database"))
    return SqlCheck(line_id, answer, golds, databases, float(timeout), columns)


def _texts(line: dict[str, Any], name: str) -> tuple[str, ...]:
    value = line.get(name)
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values or not all(isinstance(item, str) and item.strip() for item in values):
        raise ValueError(f'"{name}" must be text or a list of texts, and not empty')
    return tuple(values)


class _Unverifiable(Exception):
    """The line can be read, but its database cannot be built."""


class _Schemas:
    """Builds the databases that lines give as SQL text: each text once, in a guarded worker, into a folder that goes away at the end."""

    def __init__(self, beside: Path) -> None:
        self._beside = beside
        self._folder = tempfile.TemporaryDirectory(prefix="prefkit-")
        self._pool = WorkerPool(1)
        self._built: dict[str, str | Exception] = {}

    def __enter__(self) -> _Schemas:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()
        self._folder.cleanup()

    def find(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(self._beside / name) if (self._beside / name).exists() else name for name in names)

    def build(self, script: str) -> str:
        """The path of the SQLite file that `script` makes. Raises _Unverifiable with SQLite's message where it fails."""
        key = hashlib.sha256(script.encode("utf-8", "surrogatepass")).hexdigest()
        if key not in self._built:
            result = self._pool.run(Job("", (), SqlLimits(timeout_s=10.0), script=script)).last
            if result.status == "ok":
                target = Path(self._folder.name) / f"{key}.sqlite"
                target.write_bytes(base64.b64decode(result.image))
                self._built[key] = str(target)
            else:
                self._built[key] = _Unverifiable(f"schema fails: {result.reason}")
        built = self._built[key]
        if isinstance(built, Exception):
            raise built
        return built
