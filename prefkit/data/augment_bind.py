"""What can stand in the slots of a role pattern: each slot names a role, and gets the tables, columns or conditions that play it.

| slot in `bind`        | what it gets                                                    | phrases                             |
|-----------------------|-----------------------------------------------------------------|-------------------------------------|
| `table`               | a table with rows of its own to ask about                       | one, many                           |
| `child`               | such a table that refers to another                             | one, many                           |
| `bridge`              | a table that joins two others                                   | one, many                           |
| `parent of c`         | a table that c refers to                                        | one, many; on, fk, pk for the query |
| `label of t`          | what a row is called by                                         | one, many                           |
| `name of t`           | the same, where no two rows are called alike                    | one, many                           |
| `key of t`            | the key column                                                  | one, many                           |
| `named of t`          | a condition: one row by its name                                | value                               |
| `plain of t`          | any column that a person can read                               | one, many                           |
| `number of t`, `date of t`, `category of t`, `gap of t` | a column of that role (gap: some of its values are missing) | one, many |
| `figure of t`         | AVG, SUM, MIN or MAX of a number                                | said                                |
| `end of t`            | a number or a date, with the order that puts one end first      | first, one                          |
| `few of t`, `some of t` | a condition that leaves few rows, or a part of them           | with, have, whose                   |
| `count`               | a small whole number                                            |                                     |

`… but x` leaves out the columns, or the table, of slot x. Columns are qualified where the query has a JOIN.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prefkit.data.augment_filters import Filter, Piece, few, filters, is_plural, literal, some
from prefkit.data.augment_profile import Column, Table, sayable
from prefkit.data.augment_words import listed, plural, with_article, word_set
from prefkit.errors import DataError

_SLOT = re.compile(r"(?P<role>\w+)(?: of (?P<of>\w+))?(?: but (?P<but>\w+))?")
_NOT_ADDED = word_set("age rating score rate percent percentage share ratio average height width length price temperature rank discount")
COUNTS = (2, 3, 5, 10, 20, 50, 100)
Groups = list[list[Piece]]
"""What can stand in a slot, in groups of which each is as likely as the others: conditions by column, say."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One form of query: see roles.yaml. bind: slot -> role, in order."""

    id: str
    sql: str
    wordings: tuple[str, ...]
    bind: dict[str, str]

    @property
    def joined(self) -> bool:
        return " JOIN " in self.sql


@dataclass(frozen=True, slots=True)
class Candidate:
    """A query that a pattern makes of a schema, and the question in each wording. tables: those in its slots, the first as the main one."""

    pattern: str
    tables: tuple[str, ...]
    sql: str
    questions: tuple[str, ...]


def read_role_patterns(path: Path) -> list[Pattern]:
    """The patterns of a roles file. Raises DataError for one that cannot be read."""
    import yaml

    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
        return [Pattern(entry["id"], entry["sql"], tuple(entry["wordings"]), dict(entry["bind"])) for entry in entries]
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise DataError(f"{path} holds no role patterns: {error}") from error


class Binder:
    """Binds patterns to the tables of one database. The same tables and seed give the same candidates."""

    def __init__(self, tables: Sequence[Table], seed: int) -> None:
        self._tables = {table.name: table for table in tables}
        self._seed = seed
        self._known: dict[tuple[str, str, bool], Groups] = {}

    def candidates(self, pattern: Pattern, tries: int) -> list[Candidate]:
        """Different queries of one pattern, drawn `tries` times; the first slot takes its choices in turn."""
        draw = random.Random(f"prefkit augment {self._seed} {pattern.id}")
        found: dict[str, Candidate] = {}
        for turn in range(tries):
            slots = self._bound(pattern, draw, turn)
            if slots is None:
                continue
            sql = pattern.sql.format(**slots)
            if sql not in found:
                first = len(found) % len(pattern.wordings)
                wordings = (*pattern.wordings[first:], *pattern.wordings[:first])
                tables = tuple(dict.fromkeys(piece.table.name for piece in slots.values() if piece.table is not None))
                questions = tuple(dict.fromkeys(_sentence(wording.format(**slots)) for wording in wordings))
                found[sql] = Candidate(pattern.id, tables, sql, questions)
        return list(found.values())

    def _bound(self, pattern: Pattern, draw: random.Random, turn: int) -> dict[str, Piece] | None:
        slots: dict[str, Piece] = {}
        for number, (name, text) in enumerate(pattern.bind.items()):
            match = _SLOT.fullmatch(text)
            if match is None or not hasattr(self, f"_{match['role']}"):
                raise DataError(f"{pattern.id}: there is no role {text!r}.")
            groups = self._groups(match, slots, pattern.joined)
            if not groups:
                return None
            slots[name] = draw.choice(draw.choice(groups) if number else groups[turn % len(groups)])
        return slots

    def _groups(self, match: re.Match[str], slots: Mapping[str, Piece], joined: bool) -> Groups:
        role = getattr(self, f"_{match['role']}")
        if match["of"] is None:
            groups: Groups = role()
        else:
            table = slots[match["of"]].table
            assert table is not None, match[0]
            key = match["role"], table.name, joined
            if key not in self._known:
                self._known[key] = role(table, joined)
            groups = self._known[key]
        other = slots[match["but"]] if match["but"] else None
        if other is None:
            return groups
        fits = [[piece for piece in group if _apart(piece, other)] for group in groups]
        return [group for group in fits if group]

    # Tables

    def _table(self) -> Groups:
        return [[_table_piece(table)] for table in self._tables.values() if table.rows >= 3 and not table.bridge]

    def _child(self) -> Groups:
        return [[_table_piece(table)] for table in self._tables.values() if table.rows >= 3 and table.links and not table.bridge]

    def _bridge(self) -> Groups:
        return [[_table_piece(table)] for table in self._tables.values() if len({link.parent for link in table.links}) >= 2]

    def _parent(self, child: Table, joined: bool) -> Groups:
        pieces = []
        for link in child.links:
            parent = self._tables[link.parent]
            on = f"{parent.sql}.{link.target.sql} = {child.sql}.{link.column.sql}"
            said = {"one": link.said, "many": plural(link.said), "a": with_article(link.said)}
            pieces.append([Piece(parent.sql, said | {"on": on, "fk": link.column.sql, "pk": link.target.sql}, (), parent)])
        return pieces

    # Columns

    def _label(self, table: Table, joined: bool) -> Groups:
        return [[_label_piece(table, joined)]] if table.label else []

    def _name(self, table: Table, joined: bool) -> Groups:
        return [[_label_piece(table, joined)]] if table.label and table.unique_label else []

    def _key(self, table: Table, joined: bool) -> Groups:
        return [[_column_piece(table, table.key, joined)]] if table.key else []

    def _plain(self, table: Table, joined: bool) -> Groups:
        kinds = ("text", "date", "datetime", "integer", "real")
        chosen = [column for column in table.columns if column.kind in kinds and not column.key and column not in table.label]
        return [[_column_piece(table, column, joined)] for column in chosen if all(sayable(value) for value, _ in column.values[:50])]

    def _number(self, table: Table, joined: bool) -> Groups:
        return [[_column_piece(table, column, joined)] for column in table.columns if column.number]

    def _date(self, table: Table, joined: bool) -> Groups:
        return [[_column_piece(table, column, joined)] for column in table.columns if column.date and not column.nulls]

    def _category(self, table: Table, joined: bool) -> Groups:
        return [[_column_piece(table, column, joined)] for column in table.columns if column.category]

    def _gap(self, table: Table, joined: bool) -> Groups:
        gaps = [column for column in table.columns if 0 < column.nulls < column.rows and not column.key]
        return [[_column_piece(table, column, joined)] for column in gaps]

    def _figure(self, table: Table, joined: bool) -> Groups:
        found = []
        for column in table.columns:
            if not column.number:
                continue
            sql = _sql(table, column, joined)
            words = {"AVG": "average", "MIN": "lowest", "MAX": "highest"}
            if not set(column.said.split(" ")) & _NOT_ADDED:
                words["SUM"] = "overall" if "total" in column.said.split(" ") else "total"
            found.append([Piece(f"{name}({sql})", {"said": f"{word} {column.said}"}, (column.name,)) for name, word in words.items()])
        return found

    def _end(self, table: Table, joined: bool) -> Groups:
        found = []
        for column in table.columns:
            if not column.number and not column.date:
                continue
            sql = _sql(table, column, joined)
            ends = [("DESC", "latest" if column.date else "highest"), ("", "earliest" if column.date else "lowest")]
            # Ascending, SQLite puts NULLs first, and no person means those.
            pieces = [
                Piece(f"{sql} {way}".strip(), {"first": f"{word} {column.said}", "one": column.said, "word": word}, (column.name,))
                for way, word in ends
                if way or not column.nulls
            ]
            found.append(pieces)
        return found

    # Conditions

    def _few(self, table: Table, joined: bool) -> Groups:
        return [pieces for _, found in self._all_filters(table, joined) if (pieces := few(found))]

    def _some(self, table: Table, joined: bool) -> Groups:
        return [pieces for _, found in self._all_filters(table, joined) if (pieces := some(found, table.rows))]

    def _named(self, table: Table, joined: bool) -> Groups:
        if not table.unique_label or any(column.key for column in table.label):
            return []
        pieces = []
        for name in table.names:
            parts = [f"{_sql(table, column, joined)} = {literal(value)}" for column, value in zip(table.label, name, strict=True)]
            said = " ".join(map(str, name))
            pieces.append(Piece(" AND ".join(parts), {"value": said}, tuple(column.name for column in table.label)))
        return [pieces] if pieces else []

    def _count(self) -> Groups:
        return [[Piece(str(number), {"said": str(number)})] for number in COUNTS]

    def _all_filters(self, table: Table, joined: bool) -> list[tuple[Column, list[Filter]]]:
        draw = random.Random(f"prefkit augment {self._seed} {table.name}")
        # "The names of the tracks with the name X" asks nothing: what a row is called by is only looked for in part.
        alone = table.label if len(table.label) == 1 else ()
        return [(column, filters(column, _sql(table, column, joined), draw, in_part=column in alone)) for column in table.columns]


def _apart(piece: Piece, other: Piece) -> bool:
    if piece.table is not None:
        return piece.table is not other.table
    return not set(piece.columns) & set(other.columns)


def _sql(table: Table, column: Column, joined: bool) -> str:
    return f"{table.sql}.{column.sql}" if joined else column.sql


def _table_piece(table: Table) -> Piece:
    return Piece(table.sql, {"one": table.one, "many": table.many, "a": with_article(table.one)}, (), table)


def _column_piece(table: Table, column: Column, joined: bool) -> Piece:
    said = {"one": column.said, "many": plural(column.said), "a": column.said if is_plural(column.said) else with_article(column.said)}
    return Piece(_sql(table, column, joined), said, (column.name,))


def _label_piece(table: Table, joined: bool) -> Piece:
    sql = ", ".join(_sql(table, column, joined) for column in table.label)
    one = listed(column.said for column in table.label)
    if one == "first name and last name":
        one = "first and last name"
    return Piece(sql, {"one": one, "many": plural(one)}, tuple(column.name for column in table.label))


def _sentence(text: str) -> str:
    """One space between words and a capital at the start."""
    text = " ".join(text.split())
    return text[:1].upper() + text[1:]
