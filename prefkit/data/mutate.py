"""Queries that do nearly what a right one does: one part changed, as people and models get it wrong.

| name                     | what is changed                                                             |
|--------------------------|-----------------------------------------------------------------------------|
| wrong_column             | another column of the same table                                            |
| missing_column           | the last selected column is left out                                        |
| swapped_columns          | the first two selected columns change places                                |
| missing_join_condition   | a condition of a join, or its only one, is left out                         |
| left_for_inner           | LEFT JOIN where the query has an inner one                                  |
| inner_for_left           | the other way round                                                         |
| dropped_filter           | the WHERE, or one of its conditions, is left out                            |
| dropped_having           | the same for HAVING                                                         |
| changed_comparison       | > for >=, < for >, <> for =, …                                              |
| negated_condition        | NOT before IN, LIKE, BETWEEN, IS, EXISTS, or left out where it stands       |
| swapped_connector        | OR for AND, AND for OR                                                      |
| wrong_literal            | a number one more or less; another text that occurs in the column           |
| wrong_aggregate          | MAX for AVG, AVG for SUM, …                                                 |
| wrong_operator           | - for +, / for *                                                            |
| distinct_dropped         | DISTINCT is left out, of SELECT or inside an aggregate                      |
| distinct_added           | the other way round                                                         |
| dropped_grouping         | GROUP BY is left out                                                        |
| reversed_order           | DESC for ASC, ASC for DESC                                                  |
| dropped_order            | ORDER BY is left out                                                        |
| off_by_one_limit         | LIMIT or OFFSET one more or less                                            |
| wrong_set_operation      | UNION ALL for UNION, UNION for INTERSECT, INTERSECT for EXCEPT, …           |

Nothing here says that a changed query is wrong: it may well give the same rows. That is found by running it.

The query keeps its own spelling but for the part that is changed (see `respell`): written anew by a library, a wrong answer would be known
by its manner instead of by what it asks for.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prefkit.data.respell import Spelling
from prefkit.tasks.sql_columns import Columns

Tree = Any
"""A node of a parsed query, with what is below it (sqlglot's Expression, which has other names in other versions)."""

LONGEST_QUERY = 20_000


@dataclass(frozen=True, slots=True)
class Mutation:
    """A changed query, and what was changed in it (see the table above)."""

    name: str
    sql: str


def mutations(sql: str, columns: Columns, rng: random.Random, dialect: str = "sqlite") -> Iterator[Mutation]:
    """Changed forms of `sql`, each different from it and from the others; none where it cannot be parsed.

    They come in an order drawn from `rng` in which every name stands once before any stands twice, so that the first few are of many kinds.
    """
    import sqlglot

    if len(sql) > LONGEST_QUERY:
        return
    try:
        tree = sqlglot.parse_one(sql, read=dialect)
        spelling = Spelling(sql, tree, dialect)
        found = _places(tree, columns)
    except _unparseable():
        return
    seen = {spelling.key(sql)}
    for name, index, new in _in_turns(found, rng):
        try:
            text = spelling.respell(_replaced(tree, index, new))
        except _unparseable():
            continue
        if text is not None and (key := spelling.key(text)) not in seen:
            seen.add(key)
            yield Mutation(name, text)


def _unparseable() -> tuple[type[Exception], ...]:
    """What a parser may raise of hostile text."""
    from sqlglot.errors import SqlglotError

    return SqlglotError, RecursionError, ValueError, IndexError, AttributeError, TypeError, KeyError


_Place = tuple[str, int, Tree | None]


def _places(tree: Tree, columns: Columns) -> list[_Place]:
    """(name, number of the node in the order of walking, what takes its place or None) for every change there is."""
    return [
        (name, index, new)
        for index, node in enumerate(tree.walk())
        for changes in _BY_KIND.get(type(node).__name__, ())
        for name, new in changes(node, columns)
    ]


def _in_turns(places: list[_Place], rng: random.Random) -> Iterator[_Place]:
    by_name: defaultdict[str, list[_Place]] = defaultdict(list)
    for place in places:
        by_name[place[0]].append(place)
    groups = list(by_name.values())
    rng.shuffle(groups)
    for group in groups:
        rng.shuffle(group)
    for turn in range(max(map(len, groups), default=0)):
        yield from (group[turn] for group in groups if turn < len(group))


def _replaced(tree: Tree, index: int, new: Tree | None) -> Tree:
    copy = tree.copy()
    target = next(node for number, node in enumerate(copy.walk()) if number == index)
    if target is copy:
        if new is None:
            raise ValueError("a whole query cannot be left out")
        return new
    if new is None:
        target.pop()
    else:
        target.replace(new)
    return copy


# The changes. Each takes a node and gives (name, what takes its place; None: nothing).

_Changes = Iterator[tuple[str, Tree | None]]
_AGGREGATES = {"Avg": ("Max", "Sum"), "Max": ("Min", "Avg"), "Min": ("Max", "Avg"), "Sum": ("Avg", "Max"), "Count": ("Max", "Sum")}
_COMPARISONS = {"GT": ("GTE", "LT"), "GTE": ("GT", "LT"), "LT": ("LTE", "GT"), "LTE": ("LT", "GT"), "EQ": ("NEQ",), "NEQ": ("EQ",)}
_OPERATORS = {"Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul"}


def _with(node: Any, **values: Any) -> Any:
    copy = node.copy()
    for name, value in values.items():
        copy.set(name, value)
    return copy


def _made(kind: str, node: Any) -> Any:
    """A node of another kind over the same parts."""
    from sqlglot import expressions as exp

    return getattr(exp, kind)(**{name: value for name, value in node.copy().args.items() if value is not None})


def _column(node: Any, columns: Columns) -> _Changes:
    from sqlglot import expressions as exp

    table = _table_of(node, columns)
    for other in columns.tables.get(table or "", ()):
        if other.lower() != node.name.lower():
            yield "wrong_column", _with(node, this=exp.to_identifier(other, quoted=not other.isidentifier()))


def _table_of(column: Any, columns: Columns) -> str | None:
    """The table, in lower case, that a column belongs to, as far as the tables of its own SELECT say so."""
    from sqlglot import expressions as exp

    select = column.find_ancestor(exp.Select)
    if select is None:
        return None
    sources = [part.this for part in (*select.args.values(),) if isinstance(part, exp.From)]
    sources += [join.this for join in select.args.get("joins") or []]
    tables = {source.alias_or_name.lower(): source.name.lower() for source in sources if isinstance(source, exp.Table)}
    if column.table:
        return tables.get(column.table.lower())
    return next((name for name in tables.values() if column.name.lower() in map(str.lower, columns.tables.get(name, ()))), None)


def _select(node: Any, _: Columns) -> _Changes:
    from sqlglot import expressions as exp

    parts = node.expressions
    if len(parts) > 1:
        yield "missing_column", _with(node, expressions=[part.copy() for part in parts[:-1]])
        yield "swapped_columns", _with(node, expressions=[part.copy() for part in (parts[1], parts[0], *parts[2:])])
    # Of one row, or asked only for what is in it, DISTINCT changes nothing.
    if not node.args.get("distinct") and not node.find_ancestor(exp.In, exp.Exists) and not any(part.find(exp.AggFunc) for part in parts):
        yield "distinct_added", node.copy().distinct()


def _distinct(node: Any, _: Columns) -> _Changes:
    if not node.expressions:
        yield "distinct_dropped", None
    elif len(node.expressions) == 1:
        yield "distinct_dropped", node.expressions[0].copy()


def _aggregate(node: Any, _: Columns) -> _Changes:
    from sqlglot import expressions as exp

    if not isinstance(node.this, exp.Column):
        return
    if not isinstance(node, (exp.Max, exp.Min)):
        yield "distinct_added", _with(node, this=exp.Distinct(expressions=[node.this.copy()]))
    for other in _AGGREGATES[type(node).__name__]:
        yield "wrong_aggregate", getattr(exp, other)(this=node.this.copy())


def _join(node: Any, _: Columns) -> _Changes:
    from sqlglot import expressions as exp

    on, side = node.args.get("on"), str(node.args.get("side") or "").upper()
    if on is None and not node.args.get("using"):
        return
    if not isinstance(on, exp.And):  # of several conditions, each is left out at its AND
        yield "missing_join_condition", _with(node, on=None, using=None, **({} if side else {"kind": "CROSS"}))
    if side == "LEFT":
        yield "inner_for_left", _with(node, side=None, kind=None)
    elif not side and str(node.args.get("kind") or "INNER").upper() == "INNER":
        yield "left_for_inner", _with(node, side="LEFT", kind=None)


def _where(_node: Any, _: Columns) -> _Changes:
    yield "dropped_filter", None


def _having(_node: Any, _: Columns) -> _Changes:
    yield "dropped_having", None


def _connector(node: Any, _: Columns) -> _Changes:
    from sqlglot import expressions as exp

    home = node.find_ancestor(exp.Join, exp.Where, exp.Having, exp.Select)
    name = {exp.Join: "missing_join_condition", exp.Where: "dropped_filter", exp.Having: "dropped_having"}.get(type(home))
    if isinstance(node, exp.And) and name:
        yield name, node.left.copy()
        yield name, node.right.copy()
    yield "swapped_connector", _made("Or" if isinstance(node, exp.And) else "And", node)


def _comparison(node: Any, _: Columns) -> _Changes:
    from sqlglot import expressions as exp

    if node.find_ancestor(exp.Join, exp.Select).__class__ is not exp.Join:  # pairs of all that do not match: too wrong to teach anything
        for other in _COMPARISONS[type(node).__name__]:
            yield "changed_comparison", _made(other, node)


def _predicate(node: Any, _: Columns) -> _Changes:
    from sqlglot import expressions as exp

    if isinstance(node.parent, exp.Not):
        return
    inside = _with(node, negate=None if node.args.get("negate") else True)
    # LIKE has its NOT inside, others have it around them.
    yield "negated_condition", inside if inside.sql() != node.sql() else exp.Not(this=node.copy())


def _negation(node: Any, _: Columns) -> _Changes:
    yield "negated_condition", node.this.copy()


def _operator(node: Any, _: Columns) -> _Changes:
    from sqlglot import expressions as exp

    other = _OPERATORS[type(node).__name__]
    # As SQLite divides: without these, a cast would be written.
    how = {"typed": True, "safe": True} if other == "Div" else {}
    yield "wrong_operator", getattr(exp, other)(this=node.this.copy(), expression=node.expression.copy(), **how)


def _literal(node: Any, columns: Columns) -> _Changes:
    from sqlglot import expressions as exp

    parent = node.parent
    if isinstance(parent, (exp.Limit, exp.Offset, exp.Ordered, exp.Group)) or (
        isinstance(parent, exp.Func) and not isinstance(parent, (exp.Connector, exp.Predicate))
    ):
        return  # a limit has a change of its own, a position or a format is no value
    if node.name.isdecimal() and len(node.name) < 10:
        for value in (int(node.name) + 1, int(node.name) - 1):
            if value >= 0:
                text = str(value).zfill(len(node.name)) if node.is_string else str(value)
                yield "wrong_literal", _with(node, this=text)
    elif node.is_string and isinstance(parent, (exp.EQ, exp.NEQ, exp.In, exp.GT, exp.GTE, exp.LT, exp.LTE)):
        column = next((part for part in parent.iter_expressions() if isinstance(part, exp.Column)), None)
        table = _table_of(column, columns) if column is not None else None
        if column is not None and table:
            yield from (("wrong_literal", _with(node, this=text)) for text in columns.values(table, column.name) if text != node.name)


def _limit(node: Any, _: Columns) -> _Changes:
    count = node.expression
    if getattr(count, "is_int", False) and count.name.isdecimal():
        for value in (int(count.name) + 1, int(count.name) - 1):
            if value >= (0 if type(node).__name__ == "Offset" else 1):
                yield "off_by_one_limit", _with(node, expression=_with(count, this=str(value)))


def _ordered(node: Any, _: Columns) -> _Changes:
    yield "reversed_order", _with(node, desc=None if node.args.get("desc") else True, nulls_first=not node.args.get("nulls_first"))


def _order(node: Any, _: Columns) -> _Changes:
    yield "dropped_order", None


def _group(_node: Any, _: Columns) -> _Changes:
    yield "dropped_grouping", None


def _set_operation(node: Any, _: Columns) -> _Changes:
    kind = type(node).__name__
    if kind == "Union":
        yield "wrong_set_operation", _with(node, distinct=not node.args.get("distinct"))
        yield "wrong_set_operation", _with(_made("Intersect", node), distinct=True)
    else:
        yield "wrong_set_operation", _made("Union" if kind == "Intersect" else "Intersect", node)


_BY_KIND: dict[str, tuple[Callable[[Any, Columns], _Changes], ...]] = {
    "Column": (_column,), "Select": (_select,), "Distinct": (_distinct,), "Join": (_join,), "Where": (_where,), "Having": (_having,),
    "And": (_connector,), "Or": (_connector,), "Not": (_negation,), "Literal": (_literal,), "Limit": (_limit,), "Offset": (_limit,),
    "Ordered": (_ordered,), "Order": (_order,), "Group": (_group,),
    **dict.fromkeys(_AGGREGATES, (_aggregate,)),
    **dict.fromkeys(_COMPARISONS, (_comparison,)),
    **dict.fromkeys(_OPERATORS, (_operator,)),
    **dict.fromkeys(("Union", "Intersect", "Except"), (_set_operation,)),
    **dict.fromkeys(("Is", "In", "Like", "Glob", "Between", "Exists"), (_predicate,)),
}  # fmt: skip
