"""Probes by likelihood: what a model that reads its prompt passes, one that does not passes half of the time."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefkit.data.readiness_probe import COLUMNS, TABLES, gold_matches, nats_per_character, needle_matches, parted, passed

if TYPE_CHECKING:
    from prefkit.data.readiness_probe import Match
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask

PROMPT = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "item: id, name\nshop: id, city\n\nHow many?"}]


def scored(matches: list[Match], model: Any) -> list[list[dict[str, Any]]]:
    """What the job `likelihoods` returns where `model(messages, query)` is the log-likelihood."""
    rows = [row for match in matches for row in match.rows]
    return [[{"logprob": model(row["messages"], query), "tokens": len(query)} for query in row["answers"]] for row in rows]


def reader(messages: list[dict[str, str]], query: str) -> float:
    """A model that finds the table's column in the schema."""
    table, column = re.fullmatch(r"SELECT (\w+)\.(\w+) FROM \w+", query).groups()  # type: ignore[union-attr]
    return -1.0 if f"{table}: id, {column}" in messages[-1]["content"] else -3.0


def test_the_needle_stands_at_the_ends_and_the_tables_swap_their_columns() -> None:
    found = needle_matches(PROMPT, 12, seed=3)
    assert [len(matches) for matches in found.values()] == [12, 12]
    for far, near in zip(found["far"], found["near"], strict=True):
        assert far.queries == near.queries
        contents = [prompt[-1]["content"] for prompt in far.prompts]
        (table, asked), (same, other) = (query.removeprefix("SELECT ").partition(" ")[0].split(".") for query in far.queries)
        assert table == same and asked != other
        assert contents[0].startswith(f"{table}: id, {asked}\n") and contents[0].splitlines()[1].endswith(f": id, {other}")
        assert contents[1].startswith(f"{table}: id, {other}\n") and contents[1].splitlines()[1].endswith(f": id, {asked}")
        assert contents[0].endswith(f"\nshop: id, city\n\nWhat is stored for the {table}?")
        schema, _, _ = near.prompts[0][-1]["content"].rpartition("\n\n")
        assert schema.startswith("item: id, name\nshop: id, city\n") and schema.splitlines()[2] == f"{table}: id, {asked}"
        assert far.prompts[0][0] == PROMPT[0]
    assert needle_matches(PROMPT, 12, seed=3) == found != needle_matches(PROMPT, 12, seed=4)


def test_names_of_the_schema_are_no_needles() -> None:
    schema = "\n".join(f"{table}: {', '.join(COLUMNS[:-2])}" for table in TABLES[:-3])
    prompt = [{"role": "user", "content": f"{schema}\n\nWhat?"}]
    for match in needle_matches(prompt, 30, seed=1)["far"]:
        for query in match.queries:
            table, column = query.removeprefix("SELECT ").partition(" ")[0].split(".")
            assert column in COLUMNS[-2:] and table in TABLES[-3:]
    full = [{"role": "user", "content": f"{' '.join(TABLES[1:])} {' '.join(COLUMNS)}\n\nWhat?"}]
    assert needle_matches(full, 5, seed=1) == needle_matches(None, 5, seed=1) == {"far": [], "near": []}


def test_a_model_that_reads_the_schema_passes_and_one_that_sees_its_last_lines_alone_passes_at_the_near_end() -> None:
    found = needle_matches(PROMPT, 40, seed=5)

    def short(messages: list[dict[str, str]], query: str) -> float:
        cut = [{**messages[-1], "content": messages[-1]["content"][-90:]}]
        return reader(cut, query) + random.Random(query + cut[0]["content"]).gauss(0, 0.3)

    assert passed(scored(found["far"], reader)).mean == 1
    near, far = passed(scored(found["near"], short)), passed(scored(found["far"], short))
    assert near.low > 0.5 >= far.low


@given(st.fixed_dictionaries(dict.fromkeys(COLUMNS, st.floats(-9, 0))), st.floats(-9, 0))
def test_what_a_model_thinks_of_a_name_as_such_does_not_count(likes: dict[str, float], length: float) -> None:
    """A model that likes some columns better reads no worse for it, and one that goes by that alone passes nothing."""
    matches = needle_matches(PROMPT, 10, seed=6)["far"]

    def prior(query: str) -> float:
        return likes[query.partition(".")[2].partition(" ")[0]] + length * len(query)

    assert passed(scored(matches, lambda messages, query: reader(messages, query) + prior(query))).mean == 1
    assert passed(scored(matches, lambda _, query: prior(query))).mean == 0


def test_golds_meet_golds_of_other_questions_on_their_database(task: SqlTask, examples: list[Example]) -> None:
    matches = gold_matches(task, examples, 10)
    assert len(matches) == 4
    golds = {example.question: example.golds[0] for example in examples}
    for match in matches:
        questions = [prompt[-1]["content"].rpartition("\n\n")[2] for prompt in match.prompts]
        assert len({question.split(" of ")[1] for question in questions}) == 1
        assert tuple(golds[question] for question in questions) == match.queries and len(set(match.queries)) == 2
    # Databases take turns, and no question stands in two pairs.
    assert [match.prompts[0][-1]["content"].rpartition(" of ")[2] for match in matches] == ["shop?", "farm?", "shop?", "farm?"]
    assert len({prompt[-1]["content"] for match in matches for prompt in match.prompts}) == 8
    assert len(gold_matches(task, examples, 3)) == 3
    same = [example for example in examples if example.id.endswith("/count")]
    assert gold_matches(task, same, 3) == gold_matches(task, [], 3) == []


def test_likelihoods_of_several_lists_come_apart_again() -> None:
    found = needle_matches(PROMPT, 3, seed=1)
    far, near = scored(found["far"], reader), scored(found["near"][:2], reader)
    assert parted([*far, *near], 3, 2) == [far, near]
    # A right query costs 1 nat here, whatever its length; the crossed ones are not counted.
    characters = sum(len(query) for match in found["far"] for query in match.queries)
    assert nats_per_character(found["far"], far) == pytest.approx(6 / characters)
    assert nats_per_character([], []) is None and passed([]).n == 0
