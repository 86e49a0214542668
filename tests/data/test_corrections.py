"""Corrections: the second turn knows what the verifier said and nothing of the gold; every trajectory says how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from prefkit.data.corrections import correction_requests, trajectories

if TYPE_CHECKING:
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask

Row = dict[str, Any]
Answered = Callable[..., tuple[list[Row], list[Row]]]
RIGHT = "SELECT COUNT(*) FROM item"
FIRST = {
    "shop/count": ["SELECT id FROM item", RIGHT, "SELECT id FROM item", "SELECT 1"],
    "farm/count": [RIGHT, RIGHT, RIGHT, RIGHT],
    "shop/fruit": ["SELECT nothing FROM item", "SELECT 1", "SELECT 2", "…SELECT name"],
    "farm/names": ["…SELECT name", "…SELECT", "…", "…"],
}
SECOND = {"shop/count": [RIGHT, "SELECT 2"], "shop/fruit": ["SELECT name FROM item", "SELECT 3"]}


@pytest.fixture
def turns(answered: Answered, task: SqlTask, examples: list[Example]) -> tuple[tuple[list[Row], list[Row]], tuple[list[Row], list[Row]]]:
    """Rollouts and verdicts of the first turns, and of the second turns to them."""
    first = answered(FIRST)
    requests = {request.example.id: request for request in correction_requests(task, examples, *first)}
    rows, verdicts = answered({name: SECOND[name] for name in requests}, turn=1)
    for row, verdict in zip(rows, verdicts, strict=True):
        request = requests[row["example_id"]]
        row.update(id=f"second/{row['id']}", parent=request.parent, messages=request.messages)
        verdict.update(id=row["id"])
    return first, (rows, verdicts)


def test_one_second_turn_for_each_question_with_a_wrong_answer_that_ended(
    answered: Answered, task: SqlTask, examples: list[Example]
) -> None:
    requests = correction_requests(task, examples, *answered(FIRST))
    assert [(request.name, request.turn, request.parent) for request in requests] == [
        ("shop/count/turn-1", 1, "rollouts-1/shop/count/0"),  # given twice
        ("shop/fruit/turn-1", 1, "rollouts-1/shop/fruit/0"),  # the first of those given once
    ]


def test_a_wrong_answer_without_feedback_asks_for_nothing(answered: Answered, task: SqlTask, examples: list[Example]) -> None:
    rows, verdicts = answered({"shop/count": ["SELECT 1"]})
    assert correction_requests(task, examples, rows, verdicts)
    assert correction_requests(task, examples, rows, [{**verdicts[0], "feedback": None}]) == []
    assert correction_requests(task, examples, rows, [{**verdicts[0], "score": None, "status": "INFRA"}]) == []


def test_the_second_turn_holds_nothing_of_the_gold(answered: Answered, task: SqlTask, examples: list[Example]) -> None:
    """Neither its text nor the rows it returns nor their number: only what the wrong answer itself brought up."""
    answers = {
        "shop/fruit": ["SELECT price FROM item WHERE id = 3"], "farm/dearest": ["SELECT nothing FROM item"], "shop/names": ["no query"],
        "farm/count": ["SELECT kind FROM item WHERE 0"], "shop/dearest": ["DELETE FROM item"], "farm/fruit": ["SELECT id, id FROM item"],
    }  # fmt: skip
    rows, verdicts = answered(answers)
    requests = correction_requests(task, examples, rows, verdicts)
    assert len(requests) == len(answers)
    hidden = {
        "fruit": ("pear", "fig", "plum", "kind ="),
        "dearest": ("kale", "plum", "ORDER BY"),
        "names": ("pear", "plum"),
        "count": ("COUNT", " 4", " 3"),
    }
    for request in requests:
        *prompt, said, feedback = request.messages
        assert prompt == task.prompt(request.example)
        assert said == {"role": "assistant", "content": answers[request.example.id][0]}
        assert feedback["role"] == "user" and feedback["content"].endswith("Answer with a corrected query.")
        for gold in request.example.golds:
            assert gold not in feedback["content"]
        for word in hidden[request.example.id.split("/")[1]]:
            assert word not in feedback["content"], feedback["content"]
        assert "expected" not in feedback["content"].lower()


def test_trajectories_end_as_they_ended(turns: tuple, examples: list[Example]) -> None:
    rows, _, _ = trajectories(examples, *turns, use_references=False)
    ends = {row["example_id"]: row for row in rows}
    assert {name: row["end"] for name, row in ends.items()} == {"shop/count": "repaired", "shop/fruit": "open"}
    repaired, still_wrong = ends["shop/count"], ends["shop/fruit"]
    assert [turn["content"] for turn in repaired["turns"]] == ["SELECT id FROM item", RIGHT]
    assert [turn["status"] for turn in repaired["turns"]] == ["WRONG", "PASS"]
    assert [turn["train"] for turn in repaired["turns"]] == [False, True], "a wrong turn is context, never a target"
    assert [turn["train"] for turn in still_wrong["turns"]] == [False, False]
    assert all(turn["rollout"] and turn["verdict"] for row in rows for turn in row["turns"])
    assert repaired["completion"] == [{"role": "assistant", "content": RIGHT}]
    assert repaired["prompt"][-2]["content"] == "SELECT id FROM item"
    assert repaired["turns"][0]["feedback"] in repaired["prompt"][-1]["content"]


def test_the_gold_closes_a_trajectory_only_where_references_may_be_used(turns: tuple, examples: list[Example]) -> None:
    rows, _, _ = trajectories(examples, *turns, use_references=True)
    ends = {row["example_id"]: row for row in rows}
    assert {name: row["end"] for name, row in ends.items()} == {"shop/count": "repaired", "shop/fruit": "reference"}
    last = ends["shop/fruit"]["turns"][1]
    gold = "SELECT name FROM item WHERE kind = 'fruit'"
    assert (last["content"], last["train"], last["rollout"], last["verdict"]) == (gold, True, None, None)
    without, _, _ = trajectories(examples, *turns, use_references=False)
    assert gold not in str(without)


def test_repairs_become_pairs_and_are_counted_against_fresh_tries(turns: tuple, examples: list[Example]) -> None:
    _, pairs, counts = trajectories(examples, *turns, use_references=False)
    (pair,) = pairs
    assert (pair["source"], pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == ("correction", RIGHT, "SELECT 2")
    assert pair["prompt"][-2]["content"] == "SELECT id FROM item", "the prompt is the failed turn with its feedback"
    assert pair["chosen_rollout"] == "second/rollouts-1/shop/count/0"
    # Of the other first answers to the two questions (3 and 3) one was right.
    assert counts == {
        "trajectories": 2, "repair_tries": 4, "repaired": 1, "repair_rate": 0.25, "fresh_rate": round(1 / 6, 4), "correction_pairs": 1,
    }  # fmt: skip


def test_without_second_turns_there_is_nothing_to_count(answered: Answered, examples: list[Example]) -> None:
    rows, pairs, counts = trajectories(examples, answered(FIRST), ([], []), use_references=True)
    assert (rows, pairs) == ([], [])
    assert counts["repair_rate"] is None and counts["fresh_rate"] is None
