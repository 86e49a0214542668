"""The check `lookup`, and the tables it looks in: rows in the rules file, or a CSV beside it.

    tables:
      rates:
        file: rates.csv            # or rows: [{country: DE, rate: 0.19}, …]
    rules:
      - id: rate
        message: The rate is the country's.
        lookup: {path: country, table: rates, column: country, same: {vat.rate: rate}}

Kept where the value stands in the column, in a row whose other columns hold what `same` leads to. A cell of a CSV is text: a text equals it
exactly, a number where the cell is that number (`0.190` is 0.19). Rows in the rules file have JSON's types, and equal as JSON.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path as File
from typing import Any

from prefkit.verify.json_text import canonical, shown
from prefkit.verify.paths import MISSING
from prefkit.verify.rules_checks import Check, over_values
from prefkit.verify.rules_terms import Scope, absent, path_of
from prefkit.verify.yaml_lines import Node, PlaceError

_MAX_EXPONENT = 400


@dataclass(frozen=True, slots=True)
class Table:
    """Rows by column. content: the bytes of its file, for the cache's key."""

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    from_csv: bool
    content: bytes = b""


def read_table(node: Node, folder: File) -> Table:
    """Raises PlaceError with the file and line of what is wrong."""
    fields = node.fields((), ("file", "rows"))
    if ("file" in fields) == ("rows" in fields):
        raise node.error("expected either file (a CSV beside this file) or rows")
    if "file" in fields:
        return _read_csv(fields["file"], folder)
    rows = []
    for item in fields["rows"].items("rows"):
        if not isinstance(item.value, dict) or not item.value:
            raise item.error("a row is a group of columns: {code: DE, rate: 0.19}")
        rows.append(item.plain())
        if rows[-1].keys() != rows[0].keys():
            raise item.error(f"the columns of this row are not those of the first: {', '.join(rows[0])}")
    return Table(tuple(rows[0]), tuple(rows), from_csv=False)


def compile_lookup(node: Node, tables: Mapping[str, Table]) -> Check:
    """Raises PlaceError."""
    fields = node.fields(("path", "table", "column"), ("same",))
    if not tables:
        raise fields["table"].error("there are no tables; add them under tables")
    table = tables[fields["table"].choice(tables)]
    column = fields["column"].choice(table.columns)
    same = [(path_of(Node(path, other.file, other.line), many=False), other.choice(table.columns)) for path, other in _same(fields)]
    rows: dict[Any, list[Mapping[str, Any]]] = {}
    for row in table.rows:
        for key in _keys(row[column], table.from_csv):
            rows.setdefault(key, []).append(row)

    def say(scope: Scope, value: Any) -> str | None:
        found = rows.get(canonical(value))
        if found is None:
            return f"is not in the table: {shown(value)}"
        others = [(*next(scope.find(path), (path.text, MISSING)), name) for path, name in same]
        if scope.optional:
            others = [other for other in others if not absent(other[1])]
        scope.budget.spend(len(found))
        # The row that agrees in most says what is wrong.
        unlike = min(([where for where, other, name in others if not _is(other, row[name], table.from_csv)] for row in found), key=len)
        return f"{shown(value)} goes with another {unlike[0]}" if unlike else None

    return over_values(path_of(fields["path"]), say)


def _same(fields: dict[str, Node]) -> list[tuple[str, Node]]:
    if "same" not in fields:
        return []
    if not isinstance(fields["same"].value, dict) or not fields["same"].value:
        raise fields["same"].error("expected path: column pairs")
    return list(fields["same"].value.items())


def _is(value: Any, cell: Any, from_csv: bool) -> bool:
    return value is not MISSING and canonical(value) in _keys(cell, from_csv)


def _keys(cell: Any, from_csv: bool) -> set[Any]:
    """What a value must be, canonically, to equal a cell."""
    keys = {canonical(cell)}
    if from_csv:
        try:
            number = Decimal(cell.strip())
        except InvalidOperation:
            return keys
        if number.is_finite() and abs(number.adjusted()) < _MAX_EXPONENT:
            keys.add(number)
    return keys


def _read_csv(node: Node, folder: File) -> Table:
    name = node.text("the name of a CSV file beside this file")
    try:
        content = (folder / name).read_bytes()
        text = content.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise node.error(f"{name} cannot be read: {error}") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = next(reader, [])
        if not columns or len(set(columns)) < len(columns) or not all(columns):
            raise PlaceError(f"{name}:1: expected a line of column names, each of them once")
        rows = []
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(columns):
                raise PlaceError(f"{name}:{reader.line_num}: expected {len(columns)} cells, found {len(cells)}")
            rows.append(dict(zip(columns, cells, strict=True)))
    except csv.Error as error:
        raise PlaceError(f"{name}:{reader.line_num}: not CSV: {error}") from None
    if not rows:
        raise PlaceError(f"{name}:2: there are no rows")
    return Table(tuple(columns), tuple(rows), from_csv=True, content=content)
