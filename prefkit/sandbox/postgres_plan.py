"""What a query of PostgreSQL uses, read off its plan (`EXPLAIN (VERBOSE, FORMAT JSON)`).

| in the plan                                       | what it means                                                       |
|---------------------------------------------------|---------------------------------------------------------------------|
| a volatile function that only draws numbers       | uses random()                                                       |
| any other volatile function                       | not allowed: settings, sequences, locks, files, text run as a query |
| now(), CURRENT_DATE and their kin                 | reads the clock                                                     |
| 'today' in the query, and not in the plan as text | reads the clock: it has become a date                               |
| a sample scan without REPEATABLE                  | uses random()                                                       |

Which functions are volatile is the server's own list (`pg_proc.provolatile`): a function of one's own that only reads has to be declared
STABLE. The plan shows views and SQL functions spelt out; what functions in other languages do inside it does not show.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from prefkit.sandbox.json_tree import objects
from prefkit.sandbox.postgres_text import parse_array
from prefkit.sandbox.sql_tokens import tokenize, unquote

CLOCK = frozenset({"now", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday", "pg_postmaster_start_time",
    "pg_conf_load_time", "uuidv7", "uuid_generate_v1"})  # fmt: skip
CLOCK_WORDS = frozenset({"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP"})
RANDOM = frozenset({"random", "random_normal", "gen_random_uuid", "uuidv4", "uuid_generate_v4", "gen_random_bytes", "txid_current",
    "pg_current_xact_id", "pg_backend_pid", "currtid2"})  # fmt: skip
_HARMLESS = frozenset({"current_query"})
_MOMENTS = re.compile(r"\b(?:now|today|tomorrow|yesterday)\b", re.IGNORECASE)


@dataclass(slots=True)
class Plan:
    """denied: why the query may not run, or "". uses: "clock", "random"."""

    denied: str = ""
    uses: set[str] = field(default_factory=set)


def read_plan(text: str, sql: str, volatile: frozenset[str]) -> Plan:
    """`text`: what EXPLAIN gave. `volatile`: names of the server's volatile functions."""
    plan = Plan()
    shown: set[str] = set()
    for node in objects(json.loads(text)):
        if node.get("Node Type") == "Sample Scan" and "Repeatable Seed" not in node:
            plan.uses.add("random")
        for value in node.values():
            for expression in value if isinstance(value, list) else [value]:
                if isinstance(expression, str):
                    _look(expression, volatile, plan, shown)
    literals = {unquote(token) for token in tokenize(sql) if token.kind == "string" and _MOMENTS.search(token.text)}
    if literals - shown:
        plan.uses.add("clock")
    return plan


def _look(expression: str, volatile: frozenset[str], plan: Plan, shown: set[str]) -> None:
    """Note the functions that an expression of the plan calls, and the texts that it holds."""
    if not any(sign in expression for sign in "('") and expression.upper() not in CLOCK_WORDS:
        return
    tokens = tokenize(expression)
    for i, token in enumerate(tokens):
        after = tokens[i + 1].text if i + 1 < len(tokens) else ""
        if token.kind == "string":
            text = unquote(token)
            shown.add(text)
            if text.startswith("{"):  # IN ('a', 'b') has become = ANY ('{a,b}'::text[])
                shown.update(item for item in parse_array(text) if isinstance(item, str))
        elif token.kind == "word" and token.upper in CLOCK_WORDS and after != ".":
            plan.uses.add("clock")
        elif token.kind in ("word", "name") and after == "(":
            name = unquote(token)
            if name in CLOCK:
                plan.uses.add("clock")
            elif name in RANDOM:
                plan.uses.add("random")
            elif name in volatile and name not in _HARMLESS:
                plan.denied = plan.denied or f"function not allowed: {name}"
