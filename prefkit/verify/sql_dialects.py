"""What a gold's text says about the order of its rows in the dialects of DuckDB and PostgreSQL, and it over tables in another order.

The structure (ORDER BY, LIMIT or FETCH, select list, set operations) comes from sqlglot's tree; the gold's own text is kept, and further
columns are put in at an offset that its tokens give, as gold_text.py does for SQLite. What sqlglot cannot read counts as unordered where
it has no top-level ORDER BY among its tokens, and else as ordered by keys that cannot be fetched.

`reordered` gives the query with each of its tables replaced by `(SELECT * FROM t ORDER BY …) AS t`: neither engine moves rows out of a
subquery with its own order, so a query that has one right result gives it whatever that order is.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from prefkit.sandbox.limits import MAX_SQL
from prefkit.verify.gold_text import GoldText

if TYPE_CHECKING:
    from sqlglot import exp

DIALECTS = ("duckdb", "postgres")
ORDERS = {"forward": "", "reverse": "DESC", "mixed": "ASC"}
"""Orders that `reordered` makes: as the tables are, and by a hash of each row, falling and rising."""
_STORAGE_WORDS = frozenset(
    {"rowid", "ctid", "tableoid", "xmin", "xmax", "cmin", "cmax", "pg_catalog", "information_schema", "duckdb_tables"}
)


def read_gold(sql: str, dialect: str) -> GoldText:
    """gold_text.read_gold for a dialect of DIALECTS. Never raises."""
    tokens = _tokens(sql, dialect)
    readable = bool(tokens)
    while tokens and tokens[-1].token_type.name == "SEMICOLON":
        tokens.pop()
    if readable:
        sql = sql[: tokens[-1].end + 1] if tokens else ""
    tied = any(token.text.lower() in _STORAGE_WORDS for token in tokens)
    tree = _parse(sql, dialect)
    if tree is None:
        top = _top_level(tokens)
        ordered = any(token.token_type.name == "ORDER_BY" for token in top) or not tokens
        limited = any(token.token_type.name in ("LIMIT", "FETCH") for token in top)
        return GoldText(sql, ordered, limited, (), (), {}, -1, tied)
    order = tree.args.get("order")
    listed = [] if _has_star(tree) else _select_list(tree)
    return GoldText(
        sql=sql,
        ordered=order is not None,
        limited=any(tree.args.get(name) is not None for name in ("limit", "offset", "fetch")),
        keys=_keys(order, listed, dialect) if order is not None else (),
        items=tuple(_normal(item.unalias(), dialect) for item in listed),
        aliases={item.alias.lower(): item.unalias().sql(dialect=dialect) for item in listed if _is_alias(item)},
        insert_at=_insert_at(tree, tokens),
        tied_to_storage=tied,
    )


def key_columns(gold: GoldText, columns: list[str], dialect: str) -> tuple[list[int | None], list[str]]:
    """Where each sort key stands among the result's columns (0-based), or None; and the text of those that stand nowhere.

    Both engines' rule: a whole number is a position; a bare name is an output column first; anything else is an expression.
    """
    names = [column.lower() for column in columns]
    places: list[int | None] = []
    missing = []
    for key in gold.keys:
        tree = _parse_expression(key, dialect)
        place = None
        if key.isdigit():
            place = int(key) - 1 if 0 < int(key) <= len(columns) else None
        elif _is_bare_name(tree) and names.count(tree.name.lower()) == 1:
            place = names.index(tree.name.lower())
        elif len(gold.items) == len(columns) and gold.items.count(_normal(tree, dialect) if tree is not None else key) == 1:
            place = gold.items.index(_normal(tree, dialect) if tree is not None else key)
        elif gold.insert_at < 0 and tree is not None and tree.key == "column" and names.count(tree.name.lower()) == 1:
            place = names.index(tree.name.lower())  # SELECT DISTINCT name … ORDER BY t.name
        if place is None:
            missing.append(key)
        places.append(place)
    return places, missing


def with_columns(gold: GoldText, expressions: list[str], dialect: str) -> list[str]:
    """The gold with further columns at the end of its select list: keys as written, then with aliases spelt out where that differs."""
    if gold.insert_at < 0:
        return []
    queries = []
    for keys in (expressions, [_spelt_out(key, gold.aliases, dialect) for key in expressions]):
        inserted = "".join(f", ({key})" for key in keys)
        query = f"{gold.sql[: gold.insert_at]}{inserted} {gold.sql[gold.insert_at :]}"
        if query not in queries:
            queries.append(query)
    return queries


def reordered(sql: str, dialect: str, order: str) -> str | None:
    """The query over tables in another order (a key of ORDERS), or None where its text cannot be read.

    "forward" rewrites without an order: where its result is another than the query's, the rewriting itself does not hold.
    """
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    tree = _parse(sql, dialect)
    if tree is None:
        return None
    try:
        tables = [
            source for scope in traverse_scope(tree) for source in scope.sources.values() if isinstance(source, exp.Table) and source.name
        ]
        for table in {id(table): table for table in tables}.values():
            if isinstance(table.this, exp.Identifier):
                table.replace(_ordered(table, dialect, order))
        return tree.sql(dialect=dialect)
    except Exception:  # a tree that sqlglot's own passes do not take
        return None


def _ordered(table: exp.Table, dialect: str, order: str) -> Any:
    from sqlglot import exp

    name = table.alias_or_name
    inner = table.copy()
    for part in ("alias", "joins", "laterals", "pivots", "sample"):
        inner.set(part, None)
    query = exp.select("*").from_(inner)
    if order != "forward":
        row = exp.column("prefkit_row")
        inner.set("alias", exp.TableAlias(this=exp.to_identifier("prefkit_row")))
        hashed = exp.func("md5", exp.cast(row, exp.DataType.build("text", dialect=dialect)), dialect=dialect)
        query = query.order_by(exp.Ordered(this=hashed, desc=ORDERS[order] == "DESC", nulls_first=False), copy=False)
    alias = table.args.get("alias")
    subquery = query.subquery(None, copy=False)
    subquery.set("alias", alias.copy() if alias is not None else exp.TableAlias(this=exp.to_identifier(name, quoted=table.this.quoted)))
    for part in ("joins", "laterals", "pivots", "sample"):
        if table.args.get(part):
            subquery.set(part, table.args[part])
    return subquery


def _parse(sql: str, dialect: str) -> Any:
    """The tree of one query, or None where sqlglot does not take it as one."""
    import sqlglot
    from sqlglot import exp

    if len(sql) > MAX_SQL:
        return None
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        trees = [tree for tree in sqlglot.parse(sql, read=dialect) if tree is not None]
    except Exception:  # its own errors, and whatever odd text provokes
        return None
    tree = trees[0] if len(trees) == 1 else None
    while isinstance(tree, exp.Subquery) and not any(tree.args.get(name) for name in ("order", "limit", "offset", "alias")):
        tree = tree.this
    return tree if isinstance(tree, exp.Query) else None


def _parse_expression(text: str, dialect: str) -> Any:
    import sqlglot

    try:
        return sqlglot.parse_one(text, read=dialect)
    except Exception:
        return None


def _tokens(sql: str, dialect: str) -> list[Any]:
    import sqlglot

    if len(sql) > MAX_SQL:
        return []
    try:
        return list(sqlglot.tokenize(sql, read=dialect))
    except Exception:
        return []


def _top_level(tokens: list[Any]) -> list[Any]:
    """Tokens outside all brackets."""
    depth, top = 0, []
    for token in tokens:
        if token.token_type.name in ("R_PAREN", "R_BRACKET", "R_BRACE"):
            depth = max(0, depth - 1)
        elif depth == 0:
            top.append(token)
        if token.token_type.name in ("L_PAREN", "L_BRACKET", "L_BRACE"):
            depth += 1
    return top


def _select_list(tree: Any) -> list[Any]:
    from sqlglot import exp

    return list(tree.expressions) if isinstance(tree, exp.Select) else []


def _has_star(tree: Any) -> bool:
    from sqlglot import exp

    return any(isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)) or item.find(exp.Columns)
               for item in _select_list(tree))  # fmt: skip


def _is_alias(item: Any) -> bool:
    from sqlglot import exp

    return isinstance(item, exp.Alias)


def _is_bare_name(tree: Any) -> bool:
    from sqlglot import exp

    return isinstance(tree, exp.Column) and not tree.table


def _keys(order: Any, listed: list[Any], dialect: str) -> tuple[str, ...]:
    """Each sort key without its direction; ORDER BY ALL of DuckDB spelt out as positions."""
    from sqlglot import exp

    keys = [ordered.this if isinstance(ordered, exp.Ordered) else ordered for ordered in order.expressions]
    if len(keys) == 1 and isinstance(keys[0], exp.Var) and keys[0].name.upper() == "ALL":
        return tuple(str(position) for position in range(1, len(listed) + 1)) or ("ALL",)
    return tuple(key.sql(dialect=dialect) for key in keys)


def _normal(tree: Any, dialect: str) -> str:
    """An expression in one spelling, names in small letters."""
    from sqlglot import exp

    tree = tree.copy()
    for name in tree.find_all(exp.Identifier):
        name.set("this", str(name.this).lower())
        name.set("quoted", False)
    return tree.sql(dialect=dialect, comments=False)


def _insert_at(tree: Any, tokens: list[Any]) -> int:
    """Offset of the top-level FROM behind the select list, or -1 where no column can be added."""
    from sqlglot import exp

    if not isinstance(tree, exp.Select) or tree.args.get("distinct") is not None or tree.args.get("from_", tree.args.get("from")) is None:
        return -1
    top = _top_level(tokens)
    select = next((i for i, token in enumerate(top) if token.token_type.name == "SELECT"), None)
    if select is None:
        return -1
    for before, token in zip(top[select:], top[select + 1 :], strict=False):
        if token.token_type.name == "FROM" and before.token_type.name != "DISTINCT":
            return token.start
    return -1  # FROM stands before SELECT, as DuckDB allows


def _spelt_out(expression: str, aliases: dict[str, str], dialect: str) -> str:
    from sqlglot import exp

    tree = _parse_expression(expression, dialect)
    if tree is None:
        return expression

    def spell(node: Any) -> Any:
        if _is_bare_name(node) and node.name.lower() in aliases:
            meant = _parse_expression(aliases[node.name.lower()], dialect)
            return exp.Paren(this=meant) if meant is not None else node
        return node

    return tree.transform(spell).sql(dialect=dialect)
