"""What may be wrong with preference pairs, counted: rows that would train wrongly, sides that are told apart by their looks, leakage.

| dropped                                                               | counted as          |
|-----------------------------------------------------------------------|---------------------|
| both sides are the same text or the same tokens                       | dropped_identical   |
| longer than the model takes; nothing is ever cut                      | dropped_long        |
| not exactly one end token, at the end                                 | dropped_end_token   |
| the same prompt (but for spaces and capitals) with the same two sides | dropped_duplicate   |

Everything here is a pure function of rows (see pairs.py for their columns), so that the figures of a run can be counted again.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prefkit.tasks.base import Example
from prefkit.tasks.sql_text import skeleton, words
from prefkit.verify.extract import extract_sql

Row = dict[str, Any]

ENOUGH_PAIRS = 30
"""Fewer pairs than this are told apart by something or other by chance."""
TELLS = 0.8
"""Share of pairs in which one look at the form says which side is right, from which on a reader is warned."""


def dropped(rows: Iterable[Row], max_tokens: int, end_id: int) -> tuple[list[Row], dict[str, int]]:
    """The rows without what would train wrongly, and how many of each kind were dropped (see the table above)."""
    kept: list[Row] = []
    counts: Counter[str] = Counter()
    seen: set[tuple] = set()
    for row in rows:
        answers = [ids for ids in (row["chosen_ids"], row["rejected_ids"]) if ids is not None]
        if row["chosen_ids"] == row["rejected_ids"] or row["chosen"] == row["rejected"]:
            counts["dropped_identical"] += 1
        elif len(row["prompt_ids"]) + max(map(len, answers)) > max_tokens:
            counts["dropped_long"] += 1
        elif not all(ids.count(end_id) == 1 and ids[-1] == end_id for ids in answers):
            counts["dropped_end_token"] += 1
        elif (key := (_prompt_key(row["prompt"]), *map(tuple, answers))) in seen:
            counts["dropped_duplicate"] += 1
        else:
            seen.add(key)
            kept.append(row)
    return kept, dict(counts)


def _prompt_key(messages: Sequence[Mapping[str, str]]) -> bytes:
    text = "\0".join(" ".join(f"{message['role']} {message['content']}".split()) for message in messages)
    return hashlib.blake2b(text.casefold().encode("utf-8", "surrogatepass"), digest_size=16).digest()


def figures(rows: Sequence[Row]) -> Row:
    """Counts and shares of rows that are kept.

    Sources of both sides, lengths, the one feature of form that best tells right from wrong, and how the rows spread over levels,
    databases, tables and kinds of failure. A share of pairs that a feature tells apart counts a tie as half: 0.5 is chance.
    """
    pairs = [row for row in rows if row["rejected_ids"] is not None]
    sources = Counter(row["source"] for row in rows)
    rejected = Counter(row["rejected_source"] for row in pairs)
    lengths = [(len(row["chosen_ids"]), len(row["rejected_ids"])) for row in pairs]
    return {
        "rows": len(rows),
        "pairs": len(pairs),
        **{source: sources[source] for source in ("model", "reference", "correction")},
        **({"history": sources["history"]} if sources["history"] else {}),
        **{f"rejected_{source}": rejected[source] for source in ("mutation", "history") if rejected[source]},
        "chosen_longer_share": round(sum(one > other for one, other in lengths) / len(pairs), 3) if pairs else None,
        "chosen_longer_by": round(sum(one - other for one, other in lengths) / len(pairs), 2) if pairs else None,
        "length_tells_share": _tells(lengths)[0] if pairs else None,
        **_form(pairs),
        **spread(rows),
    }


# Features of form

_FENCE = re.compile(r"```|~~~")
_COMPLETE = re.compile(r"[\w\"'`)\];.!?*]\s*\Z")


def _capitals(text: str) -> float:
    letters = sum(map(str.isalpha, text))
    return sum(map(str.isupper, text)) / letters if letters else 0.0


FEATURES: dict[str, Callable[[str], float]] = {
    "has a fence": lambda text: bool(_FENCE.search(text)),
    "has a semicolon": lambda text: ";" in text,
    "starts with SELECT": lambda text: text.lstrip()[:6].upper() == "SELECT",
    "share of capitals": _capitals,
    "number of lines": lambda text: text.count("\n"),
    "ends properly": lambda text: bool(_COMPLETE.search(text)),
    "space at either end": lambda text: text != text.strip(),
}
"""What can be seen of an answer without reading it; a feature is a number, and it tells a pair apart where its sides differ in it."""


def _form(pairs: Sequence[Row]) -> Row:
    """The feature that alone best says which side is right, and in what share of pairs."""
    if not pairs:
        return {"form_tells_share": None, "form_feature": None}
    texts = [(row["chosen"][0]["content"], row["rejected"][0]["content"]) for row in pairs]
    best, name = 0.0, ""
    for feature, measure in FEATURES.items():
        share, more = _tells([(measure(chosen), measure(rejected)) for chosen, rejected in texts])
        if share > best:
            best, name = share, f"{'more' if more else 'less'} on the right side: {feature}"
    return {"form_tells_share": best, "form_feature": name}


def _tells(values: Sequence[tuple[float, float]]) -> tuple[float, bool]:
    """In what share of pairs the rule "the right side has more of it" holds, or "less", whichever does better; and whether it is "more"."""
    more = sum((one > other) + (one == other) / 2 for one, other in values) / len(values)
    return round(max(more, 1 - more), 3), more >= 0.5


# How the rows spread

_TABLE = re.compile(r"\b(?:FROM|JOIN)\s+[\"`\[]?(\w+)", re.IGNORECASE)
_NAMED = re.compile(r"\b(\w+)\s+AS\s+(?:NOT\s+MATERIALIZED\s+|MATERIALIZED\s+)?\(\s*SELECT", re.IGNORECASE)


def spread(rows: Sequence[Row]) -> Row:
    """Rows by level, database and table (those that the right query reads), pairs by how the rejected side failed; dictionaries."""
    tables: Counter[str] = Counter()
    for row in rows:
        tables.update(f"{row['database']}.{table}" for table in tables_of(row["chosen"][0]["content"]))
    return {
        "by_level": _sorted(Counter(str(row["level"]) for row in rows)),
        "by_database": _sorted(Counter(str(row["database"]) for row in rows)),
        "by_table": _sorted(tables),
        "by_failure": _sorted(Counter(failure_kind(row) for row in rows if row["rejected_ids"] is not None)),
    }


_KIND = re.compile(r"[A-Za-z ]{1,40}")


def failure_kind(row: Row) -> str:
    """How the rejected side of a pair failed: its status and the reason up to the first word that is the answer's own.

    >>> failure_kind({"rejected_status": "CRASH", "rejected_reason": "no such column: x"})
    'CRASH: no such column'
    """
    kind = _KIND.match(row.get("rejected_reason") or "")
    return ": ".join(part for part in (row["rejected_status"], kind and kind[0].strip()) if part) or "not recorded"


def tables_of(answer: str) -> set[str]:
    """The tables that the query of an answer names after FROM and JOIN, in lower case, without those that a WITH makes."""
    query = extract_sql(answer) or ""
    return {name.lower() for name in _TABLE.findall(query)} - {name.lower() for name in _NAMED.findall(query)}


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))


# Leakage


def leakage(rows: Sequence[Row], questions: Mapping[str, str], held_out: Sequence[Example]) -> Row:
    """How many rows share something with questions that measure: their id, their words, or their query but for its literals.

    questions: the question of each `example_id`, as far as it is known.
    """
    ids = {example.id for example in held_out}
    asked = {_words(example.question) for example in held_out}
    forms = {skeleton(gold) for example in held_out for gold in example.golds}
    return {
        "leaked_ids": sum(row["example_id"] in ids for row in rows),
        "leaked_questions": sum(_words(questions.get(row["example_id"], "")) in asked - {""} for row in rows),
        "leaked_queries": sum(skeleton(extract_sql(row["chosen"][0]["content"]) or "") in forms for row in rows),
    }


def _words(question: str) -> str:
    return " ".join(words(question))


def warnings(counts: Mapping[str, Any]) -> list[str]:
    """What a reader of these figures should know before training on the rows, each with its number and the mend."""
    found = []
    pairs = counts.get("pairs") or 0
    if pairs >= ENOUGH_PAIRS:
        if (share := counts.get("length_tells_share") or 0) >= TELLS:
            side = "longer" if (counts.get("chosen_longer_by") or 0) > 0 else "shorter"
            found.append(
                f"the {side} side is the right one in {share:.0%} of {pairs} pairs: length alone predicts the label, and a model may learn "
                "it instead of the task. `pairs.strategy: nearest` and `pairs.mutations` give sides of like length."
            )
        if (share := counts.get("form_tells_share") or 0) >= TELLS:
            found.append(
                f"one look at the form tells right from wrong in {share:.0%} of {pairs} pairs ({counts['form_feature']}): a model may "
                "learn the form instead of the task. `pairs.mutations` gives wrong answers of the same form."
            )
    for key, what in (("leaked_ids", "the id"), ("leaked_questions", "the words"), ("leaked_queries", "the query but for its literals")):
        if counts.get(key):
            found.append(f"{counts[key]} rows have {what} of a held-out question: the figures on held-out questions would be too good.")
    return found
