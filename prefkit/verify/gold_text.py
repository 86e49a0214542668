"""What a gold's text says about the order of its rows, read from SQLite's tokens.

The query's own text is kept, and one piece is put in where sort keys that are not selected have to be fetched: a rewrite through another
parser's tree might mean something else to SQLite.
"""

from __future__ import annotations

from dataclasses import dataclass

from prefkit.sandbox.sql_tokens import Token, tokenize, unquote

_COMPOUND = frozenset({"UNION", "INTERSECT", "EXCEPT"})
_AFTER_KEY = frozenset({"ASC", "DESC", "NULLS", "FIRST", "LAST"})
_STORAGE_WORDS = frozenset({"ROWID", "OID", "_ROWID_", "SQLITE_MASTER", "SQLITE_SCHEMA"})


@dataclass(frozen=True, slots=True)
class GoldText:
    """sql: without a trailing semicolon. ordered, limited: it has a top-level ORDER BY, LIMIT. keys: each sort key without its direction.

    items: the select list, normalised, () where it has a star. aliases: small letters -> expression. insert_at: offset of the top-level
    FROM, where further columns can be put in; -1 where they cannot (compound, DISTINCT, VALUES). tied_to_storage: it names the rowid or
    the schema table, so that another storage order changes its meaning.
    """

    sql: str
    ordered: bool
    limited: bool
    keys: tuple[str, ...]
    items: tuple[str, ...]
    aliases: dict[str, str]
    insert_at: int
    tied_to_storage: bool


def read_gold(sql: str) -> GoldText:
    """Find the top-level ORDER BY, its keys, LIMIT and the select list's aliases."""
    tokens = tokenize(sql)
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    sql = sql[: tokens[-1].end] if tokens else ""
    top = [(i, token) for i, token in enumerate(tokens) if token.depth == 0]
    select = next((i for i, token in top if token.upper in ("SELECT", "VALUES")), 0)
    order = next((i for i, token in top if i > select and token.upper == "ORDER"), None)
    limit = next((i for i, token in top if i > select and token.upper == "LIMIT"), None)
    keys: tuple[str, ...] = ()
    if order is not None:
        keys = tuple(_key(sql, part) for part in _split(tokens[order + 2 : limit]))
    # IS DISTINCT FROM is an operator, so a FROM after DISTINCT does not end the select list.
    source = next((i for i, token in top if i > select and token.upper == "FROM" and tokens[i - 1].upper != "DISTINCT"), None)
    words = {token.upper for _, token in top}
    simple = not (words & _COMPOUND) and "VALUES" not in words and source is not None and tokens[select + 1].upper != "DISTINCT"
    listed = tokens[select + 1 : source]
    if listed and listed[0].upper in ("DISTINCT", "ALL"):
        listed = listed[1:]
    return GoldText(
        sql=sql,
        ordered=order is not None,
        limited=limit is not None,
        keys=keys,
        items=_items(listed),
        aliases=_aliases(sql, listed),
        insert_at=tokens[source].start if simple and source is not None else -1,
        tied_to_storage=any(token.kind == "word" and token.upper in _STORAGE_WORDS for token in tokens),
    )


def key_columns(gold: GoldText, columns: list[str]) -> tuple[list[int | None], list[str]]:
    """Where each sort key stands among the result's columns (0-based), or None; and the text of those that stand nowhere.

    SQLite's rule: a whole number is a position; a name is an alias first; anything else is an expression.
    """
    names = [column.lower() for column in columns]
    places: list[int | None] = []
    missing = []
    for key in gold.keys:
        tokens = tokenize(key)
        place = None
        if len(tokens) == 1 and tokens[0].kind == "number" and key.isdigit():
            place = int(key) - 1 if 0 < int(key) <= len(columns) else None
        elif len(tokens) == 1 and tokens[0].kind in ("word", "name", "string"):
            name = unquote(tokens[0]).lower()
            place = names.index(name) if names.count(name) == 1 else None
        elif gold.items.count(_normal(tokens)) == 1 and len(gold.items) == len(columns):
            place = gold.items.index(_normal(tokens))
        elif gold.insert_at < 0 and len(tokens) == 3 and tokens[1].text == ".":  # SELECT DISTINCT name … ORDER BY t.name
            name = unquote(tokens[2]).lower()
            place = names.index(name) if names.count(name) == 1 else None
        if place is None:
            missing.append(key)
        places.append(place)
    return places, missing


def with_columns(gold: GoldText, expressions: list[str]) -> list[str]:
    """The gold with further columns at the end of its select list: keys as written, then with aliases spelt out where that differs."""
    if gold.insert_at < 0:
        return []
    written = [expressions, [_spell_out(expression, gold.aliases) for expression in expressions]]
    queries = []
    for keys in written:
        inserted = "".join(f", ({key})" for key in keys)
        query = f"{gold.sql[: gold.insert_at]}{inserted} {gold.sql[gold.insert_at :]}"
        if query not in queries:
            queries.append(query)
    return queries


def _split(tokens: list[Token]) -> list[list[Token]]:
    """Cut at the commas outside brackets."""
    if not tokens:
        return []
    parts: list[list[Token]] = [[]]
    depth = min(token.depth for token in tokens)
    for token in tokens:
        if token.text == "," and token.depth == depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _key(sql: str, tokens: list[Token]) -> str:
    while len(tokens) > 1 and tokens[-1].upper in _AFTER_KEY:
        tokens = tokens[:-1]
    return sql[tokens[0].start : tokens[-1].end]


def _normal(tokens: list[Token]) -> str:
    return " ".join(unquote(token).lower() if token.kind in ("word", "name") else token.text for token in tokens)


def _items(tokens: list[Token]) -> tuple[str, ...]:
    """The select list's expressions without their aliases, normalised; () where a star hides how many there are."""
    items = _split(tokens)
    if any(item[-1].text == "*" for item in items):
        return ()
    return tuple(_normal(item[:-2] if len(item) >= 3 and item[-2].upper == "AS" else item) for item in items)


def _aliases(sql: str, tokens: list[Token]) -> dict[str, str]:
    """alias in small letters -> its expression, for select-list items that are written `expression AS alias`."""
    found = {}
    for item in _split(tokens):
        if len(item) >= 3 and item[-2].upper == "AS" and item[-1].kind in ("word", "name", "string"):
            found[unquote(item[-1]).lower()] = sql[item[0].start : item[-3].end]
    return found


def _spell_out(expression: str, aliases: dict[str, str]) -> str:
    tokens = tokenize(expression)
    out, at = [], 0
    for i, token in enumerate(tokens):
        alone = (i == 0 or tokens[i - 1].text != ".") and (i + 1 == len(tokens) or tokens[i + 1].text not in (".", "("))
        if alone and token.kind in ("word", "name") and unquote(token).lower() in aliases:
            out += [expression[at : token.start], f"({aliases[unquote(token).lower()]})"]
            at = token.end
    return "".join(out) + expression[at:]
