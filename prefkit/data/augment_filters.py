"""Conditions on a column, with values that occur, each as SQL and in three turns of phrase.

with    invoices *with a total above 5*
have    which invoices *have a total above 5*
whose   invoices *whose total is above 5*
"""

from __future__ import annotations

import bisect
import datetime
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from prefkit.data.augment_profile import Column, Table, sayable
from prefkit.data.augment_words import day, month, plural, singular, with_article

MOST_FEW = 40
"""Rows up to which a condition counts as one that leaves few."""
_WORD = re.compile(r"[^\W\d_]{4,}")


@dataclass(frozen=True, slots=True)
class Piece:
    """What stands in a slot of a pattern: SQL for its query (`{slot}`), phrases for its wordings (`{slot[phrase]}`).

    columns: the names of the columns it is made of. table: the table, where it is one.
    """

    sql: str
    said: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    table: Table | None = None

    def __format__(self, spec: str) -> str:
        return self.sql

    def __getitem__(self, phrase: str) -> str:
        return self.said[phrase]


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition: a Piece, and how many rows of the first data instance it leaves, as far as the column's known values tell."""

    piece: Piece
    rows: int


def literal(value: object) -> str:
    """A value as SQL writes it."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else f"{value!r}"


def filters(column: Column, sql: str, draw: random.Random, in_part: bool = False) -> list[Filter]:
    """Conditions on one column, which the query writes as `sql`. At most a few dozen; which, `draw` decides.

    in_part: only such as look for a part of a text.
    """
    found: list[Filter] = []
    if column.key or column.kind == "other":
        return found
    if column.date:
        found += _date_filters(column, sql, draw)
    elif column.kind == "flag":
        found += _flag_filters(column, sql)
    elif column.number and not (column.kind == "integer" and column.distinct <= 6):
        found += _number_filters(column, sql)
    if (column.kind == "text" and not in_part) or column.category:
        found += _value_filters(column, sql, draw)
    if column.kind == "text" and column.distinct > 12:
        found += _like_filters(column, sql, draw)
    if 0 < column.nulls < column.rows:
        found += _null_filters(column, sql)
    return [one for one in found if one.rows > 0]


def is_plural(words: str) -> bool:
    """Whether the last word is a plural, so that it has no "a" before it and "are" after it."""
    last = words.split(" ")[-1]
    return singular(last) != last and plural(last) == last


def _some(words: str) -> str:
    return words if is_plural(words) else with_article(words)


def _condition(column: Column, sql: str, noun: str, predicate: str, rows: int) -> Filter:
    """`noun` stands after with and have ("a total above 5"), `predicate` after whose and the column's name ("is above 5")."""
    said = {"with": f"with {noun}", "have": f"have {noun}", "whose": f"whose {column.said} {predicate}"}
    return Filter(Piece(sql, said, (column.name,)), rows)


def _value_filters(column: Column, sql: str, draw: random.Random) -> Iterator[Filter]:
    known = [(value, count) for value, count in column.values if sayable(value)]
    chosen = draw.sample(known, min(4, len(known))) if column.contact else known[:12] + draw.sample(known[12:], min(12, len(known[12:])))
    verb = "are" if is_plural(column.said) else "is"
    for value, count in chosen:
        yield _condition(column, f"{sql} = {literal(value)}", f"the {column.said} {value}", f"{verb} {value}", count)
    if column.contact:
        return
    for (one, count), (other, more) in zip(chosen[::2], chosen[1::2], strict=False):
        noun = f"the {column.said} {one} or {other}"
        yield _condition(column, f"{sql} IN ({literal(one)}, {literal(other)})", noun, f"{verb} {one} or {other}", count + more)
    if column.category:
        for value, count in chosen[:4]:
            noun = f"any {column.said} other than {value}"
            yield _condition(column, f"{sql} <> {literal(value)}", noun, f"{verb} not {value}", column.filled - count)


def _like_filters(column: Column, sql: str, draw: random.Random) -> Iterator[Filter]:
    texts = [str(value) for value, _ in column.values]
    words = sorted({word for text in texts for word in _WORD.findall(text)})
    for word in draw.sample(words, min(10, len(words))):
        low = word.lower()
        inside = sum(count for text, (_, count) in zip(texts, column.values, strict=True) if low in text.lower())
        begins = sum(count for text, (_, count) in zip(texts, column.values, strict=True) if text.lower().startswith(low))
        name = _some(column.said)
        if begins and begins < inside:
            noun = f"{name} that starts with '{word}'"
            yield _condition(column, f"{sql} LIKE {literal(word + '%')}", noun, f"starts with '{word}'", round(column.scale * begins))
        noun, condition = f"{name} containing '{word}'", f"{sql} LIKE {literal('%' + word + '%')}"
        yield _condition(column, condition, noun, f"contains '{word}'", round(column.scale * inside))


def _number_filters(column: Column, sql: str) -> Iterator[Filter]:
    counted = sorted((float(value), count) for value, count in column.values)  # pyright: ignore[reportArgumentType]
    values, upto = [value for value, _ in counted], [0, *accumulate(count for _, count in counted)]
    total = upto[-1]

    def below(limit: float, with_itself: bool) -> int:
        return upto[(bisect.bisect_right if with_itself else bisect.bisect_left)(values, limit)]

    verb, name = "are" if is_plural(column.said) else "is", _some(column.said)
    places = (values[min(bisect.bisect_left(upto, place * total), len(values)) - 1] for place in (0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97))
    limits = sorted({_rounded(value, column.kind == "integer") for value in places})
    for limit in limits:
        for operator, said, rows in (
            (">", "above", total - below(limit, True)),
            (">=", "of at least", total - below(limit, False)),
            ("<", "below", below(limit, False)),
            ("<=", "of at most", below(limit, True)),
        ):
            predicate = f"{verb} {said.removeprefix('of ')} {limit}"
            yield _condition(column, f"{sql} {operator} {literal(limit)}", f"{name} {said} {limit}", predicate, round(column.scale * rows))
    for low, high in pairwise(limits):
        said, condition = f"between {low} and {high}", f"{sql} BETWEEN {literal(low)} AND {literal(high)}"
        rows = below(high, True) - below(low, False)
        yield _condition(column, condition, f"{name} {said}", f"{verb} {said}", round(column.scale * rows))


def _rounded(value: float, whole: bool) -> Any:
    """The value to two significant digits, as people name limits; a whole number where the column has only such."""
    if not math.isfinite(value) or value == 0:
        return 0
    near = round(value, 1 - math.floor(math.log10(abs(value))))
    return int(near) if whole or near == int(near) else near


def _date_filters(column: Column, sql: str, draw: random.Random) -> Iterator[Filter]:
    dates = sorted((str(value)[:10], count) for value, count in column.values)
    name, whose = _dated(column.said)

    def made(condition: str, said: str, first: str, end: str) -> Filter:
        rows = sum(count for date, count in dates if first <= date < end)
        phrases = {"with": f"{name} {said}", "have": f"{'were ' if whose else 'have '}{name.removeprefix('with ')} {said}"}
        phrases["whose"] = f"that were {name} {said}" if whose else f"whose {column.said} is {said}"
        return Filter(Piece(condition, phrases, (column.name,)), round(column.scale * rows))

    years = sorted({date[:4] for date, _ in dates})
    for year in years if len(years) <= 12 else draw.sample(years, 12):
        yield made(f"strftime('%Y', {sql}) = '{year}'", f"in {year}", year, f"{year}-99")
    months = sorted({date[:7] for date, _ in dates})
    for one in draw.sample(months, min(8, len(months))):
        yield made(f"strftime('%Y-%m', {sql}) = '{one}'", f"in {month(one)}", one, f"{one}-99")
    for date, _ in draw.sample(dates, min(8, len(dates))):
        said = day(date) if draw.random() < 0.5 else date
        yield made(f"{sql} < '{date}'", f"before {said}", "", date)
        yield made(f"{sql} >= '{date}'", f"on or after {said}", date, "9999")
        if column.kind == "date":
            next_day = (datetime.date.fromisoformat(date) + datetime.timedelta(1)).isoformat() if date < "9999" else date
            yield made(f"{sql} > '{date}'", f"after {said}", next_day, "9999")


def _dated(said: str) -> tuple[str, bool]:
    """How a date stands in a sentence: created at -> ("created", True), as in "were created in 2021"; else ("with a …", False)."""
    words = said.split(" ")
    if len(words) == 2 and words[1] in ("at", "on"):
        return words[0], True
    return f"with {with_article(said)}", False


def _flag_filters(column: Column, sql: str) -> Iterator[Filter]:
    first, *rest = column.said.split(" ")
    for value, count in column.values:
        if rest and first == "is":
            state = f"{'' if value else 'not '}{' '.join(rest)}"
            said = {"with": f"that are {state}", "have": f"are {state}", "whose": f"that are {state}"}
        elif rest and first == "has":
            thing = f"{'' if value else 'no '}{' '.join(rest)}"
            said = {"with": f"with {thing}", "have": f"have {thing}", "whose": f"that have {thing}"}
        else:
            said = {
                "with": f"with {column.said} {value}",
                "have": f"have {column.said} {value}",
                "whose": f"whose {column.said} is {value}",
            }
        yield Filter(Piece(f"{sql} = {value}", said, (column.name,)), count)


def _null_filters(column: Column, sql: str) -> Iterator[Filter]:
    filled = column.filled
    share = column.nulls / column.rows
    missing = round(filled * share / (1 - share))
    yield Filter(
        Piece(
            f"{sql} IS NULL",
            {"with": f"without {_some(column.said)}", "have": f"have no {column.said}", "whose": f"whose {column.said} is not recorded"},
            (column.name,),
        ),
        missing,
    )
    yield Filter(
        Piece(
            f"{sql} IS NOT NULL",
            {"with": f"with {_some(column.said)}", "have": f"have {_some(column.said)}", "whose": f"whose {column.said} is recorded"},
            (column.name,),
        ),
        filled,
    )


def few(found: Sequence[Filter]) -> list[Piece]:
    """Those that leave few rows: a list that a person reads."""
    return [one.piece for one in found if 1 <= one.rows <= MOST_FEW]


def some(found: Sequence[Filter], rows: int) -> list[Piece]:
    """Those that leave a part of the `rows`: enough to count or to add up, and not all."""
    return [one.piece for one in found if 2 <= one.rows <= 0.95 * rows]
