"""Read the files of a run that nobody vouches for: what is missing, broken, too large or of another shape is a finding, never an error.

Nothing in a run folder is trusted here: not its sizes, not its column types, not that a path stays inside.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from prefkit.data.findings import Findings
from prefkit.runfolder import RunFolder

MOST_JSON = 64 << 20
MOST_ROWS = 8 << 30
"""Bytes of a JSON file, and of a Parquet file's rows, beyond which they are no files of prefkit's."""
Row = dict[str, Any]
Columns = Mapping[str, str]
"""Column -> its kind: text, whole, number, flag, ids, messages, turns or receipts; with `?` behind it where it may be null, `+` where
the whole column may be missing (rows of older runs), in which case it reads as None."""


class Reader:
    """Reads files of one run. Paths are relative to its folder."""

    def __init__(self, run: RunFolder, findings: Findings) -> None:
        self.run, self.findings = run, findings
        self.lacking: dict[str, list[str]] = {}
        """Column that may be missing -> the files that lack it."""
        self._refused: set[str] = set()

    def path(self, rel: str) -> Path | None:
        """The file, or None after a finding where it is missing, leads out of the folder, or is no file."""
        try:
            path = self.run.file(rel)
        except ValueError:
            return self._refuse(rel, "a file of the run", "a path that leads out of the folder")
        try:
            if not path.is_file():
                return self._refuse(rel, "a file of the run", "no such file")
            if not path.resolve().is_relative_to(self.run.path.resolve()):
                return self._refuse(rel, "a file of the run", "a link that leads out of the folder")
        except (OSError, ValueError) as error:
            return self._refuse(rel, "a file of the run", f"cannot be read: {error}")
        return path

    def json(self, rel: str) -> Any:
        """The value of a JSON file; None after a finding."""
        path = self.path(rel)
        if path is None:
            return None
        if (size := path.stat().st_size) > MOST_JSON:
            return self._refuse(rel, "a JSON file", f"{size:,} bytes, more than prefkit ever writes")
        try:
            return json.loads(path.read_bytes())
        except (ValueError, RecursionError, OSError) as error:
            return self._refuse(rel, "a JSON file", f"cannot be read: {_short(error)}")

    def rows(self, rel: str, columns: Columns) -> Iterator[Row]:
        """The rows of a Parquet file with these columns; none, or fewer, after a finding. Ids come as compact arrays of integers."""
        import pyarrow
        import pyarrow.parquet as parquet

        path = self.path(rel)
        if path is None:
            return
        try:
            with parquet.ParquetFile(path) as file:
                size = sum(file.metadata.row_group(number).total_byte_size for number in range(file.metadata.num_row_groups))
                if size > MOST_ROWS:
                    self._refuse(rel, "a Parquet file", f"{size:,} bytes of rows, more than this audit reads")
                    return
                if file.metadata.num_rows == 0:
                    return
                wanted = self._fitting(rel, file.schema_arrow, columns)
                if wanted is None:
                    return
                for batch in file.iter_batches(batch_size=2048, columns=wanted):
                    yield from self._clean(rel, batch.to_pylist(), columns)
        except (pyarrow.ArrowException, OSError, ValueError, TypeError, OverflowError, MemoryError) as error:
            self._refuse(rel, "a Parquet file", f"cannot be read: {_short(error)}")

    def _fitting(self, rel: str, schema: Any, columns: Columns) -> list[str] | None:
        """The columns to read; None after a finding where one is missing or of another type."""
        wanted, faults = [], []
        for name, kind in columns.items():
            if name not in schema.names:
                if kind.endswith("+"):
                    self.lacking.setdefault(name, []).append(rel)
                else:
                    faults.append((name, kind.rstrip("?"), "no such column"))
            elif not _fits(schema.field(name).type, kind.rstrip("?+")):
                faults.append((name, kind.rstrip("?+"), str(schema.field(name).type)))
            else:
                wanted.append(name)
        for name, kind, found in faults:
            self.findings.add("files", rel, f"column {name}", ("type", kind, found))
        return None if faults else wanted

    def _clean(self, rel: str, rows: list[Row], columns: Columns) -> Iterator[Row]:
        for row in rows:
            empty = [name for name, kind in columns.items() if row.get(name) is None and kind[-1] not in "?+"]
            if empty:
                self.findings.add("files", rel, str(row.get("id") or "a row"), (empty[0], "a value", None))
                continue
            for name, kind in columns.items():
                if row.get(name) is not None and kind.rstrip("?+") in _SHAPES:
                    row[name] = _SHAPES[kind.rstrip("?+")](row[name])
            yield {name: row.get(name) for name in columns}

    def _refuse(self, rel: str, written: str, found: str) -> None:
        """Say once that a file is no use."""
        if rel not in self._refused:
            self._refused.add(rel)
            self.findings.add("files", rel, "", ("file", written, found))


def _messages(value: list[Any]) -> list[dict[str, str]]:
    return [{"role": (message or {}).get("role") or "", "content": (message or {}).get("content") or ""} for message in value]


# What a value of a kind is made into, so that nobody has to ask again what shape it has.
_SHAPES: dict[str, Callable[[Any], Any]] = {
    "ids": lambda value: array("q", value),
    "messages": _messages,
    "turns": lambda value: [turn or {} for turn in value],
    "receipts": lambda value: [receipt or {} for receipt in value],
}

_NAMED = {
    "messages": ("role", "content"),
    "turns": ("content", "rollout", "verdict", "status", "feedback"),
    "receipts": ("rollout", "verdict"),
}
"""The texts that lists of structures hold."""


def _fits(kind: Any, wanted: str) -> bool:
    """Whether an Arrow type is of this kind. A column of nulls alone fits every kind."""
    from pyarrow import types

    def text(one: Any) -> bool:
        return types.is_string(one) or types.is_large_string(one) or types.is_null(one)

    def whole(one: Any) -> bool:
        return (types.is_signed_integer(one)) or types.is_null(one)

    if types.is_null(kind):
        return True
    if wanted in ("ids", *_NAMED):
        if not (types.is_list(kind) or types.is_large_list(kind)):
            return False
        inner = kind.value_type
        if wanted == "ids":
            return whole(inner)
        if types.is_null(inner):
            return True
        fields = {field.name: field.type for field in inner} if types.is_struct(inner) else {}
        return all(name in fields and text(fields[name]) for name in _NAMED[wanted])
    simple = {"text": text, "whole": whole, "number": lambda one: whole(one) or types.is_floating(one), "flag": types.is_boolean}
    return simple[wanted](kind)


def _short(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
