"""Hard negatives: changed right answers are really executed, used only where they were found wrong, and kept with their verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from prefkit.data.hard_negatives import TRIES, HardNegatives
from prefkit.data.pairs import Settings, own_pairs, reference_pairs

if TYPE_CHECKING:
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask
    from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]
Answered = Callable[..., tuple[list[Row], list[Row]]]
END = 2
SETTINGS = Settings("nearest", per_prompt=2, max_tokens=500, end_id=END, seed=0)
FRUIT = "SELECT name FROM item WHERE kind = 'fruit'"


@pytest.fixture
def negatives(task: SqlTask, scheduler: Scheduler, tokenize: Callable) -> Callable[..., HardNegatives]:
    return lambda most=2, seed=0: HardNegatives("pairs-1", task, scheduler, tokenize, most, seed)


@pytest.fixture
def own(answered: Answered, examples: list[Example]) -> Callable[..., tuple[list[Row], Row]]:
    def own(answers: dict[str, list[str]], hard: HardNegatives, **changes: Any) -> tuple[list[Row], Row]:
        asked = [example for example in examples if example.id in answers]
        rollouts, verdicts = answered(answers)
        return own_pairs(asked, rollouts, verdicts, [], replace(SETTINGS, **changes), negatives=hard)

    return own


def text(row: Row, side: str) -> str:
    return row[side][0]["content"]


def test_a_solved_question_gets_wrong_answers_that_were_executed(own: Callable, negatives: Callable, task: SqlTask) -> None:
    hard = negatives()
    rows, counts = own({"shop/fruit": [FRUIT, FRUIT]}, hard)
    rollouts, verdicts = {row["id"]: row for row in hard.rollouts}, {row["id"]: row for row in hard.verdicts}
    assert len(rows) == counts["pairs"] == counts["rejected_mutation"] == 2 and counts["model"] == 2
    for row in rows:
        assert (text(row, "chosen"), row["source"], row["rejected_source"]) == (FRUIT, "model", "mutation")
        rollout, verdict = rollouts[row["rejected_rollout"]], verdicts[row["rejected_rollout"]]
        assert verdict["status"] == row["rejected_status"] == "WRONG" and verdict["key"] == row["rejected_verdict"]
        assert rollout["completion"] == text(row, "rejected") != FRUIT
        assert rollout["completion_ids"] == row["rejected_ids"] and row["rejected_ids"].count(END) == 1 == row["rejected_ids"][-1] // END
        assert rollout["prompt_ids"] == row["prompt_ids"] and rollout["messages"] == row["prompt"]
        assert (rollout["model"], rollout["parent"], rollout["turn"]) == ("mutation", row["chosen_rollout"], 0)
        assert rollout["logprobs"] == [] and rollout["ended"] and rollout["mutation"] in rollout["id"]
        assert row["id"] == f"{row['chosen_rollout']}>{rollout['id']}"
    assert len({text(row, "rejected") for row in rows}) == 2


def test_the_kept_rows_are_those_of_any_answer(own: Callable, negatives: Callable, task: SqlTask, scheduler: Scheduler) -> None:
    hard = negatives(most=8)
    own({"shop/fruit": [FRUIT], "farm/dearest": ["SELECT name FROM item ORDER BY price DESC LIMIT 1"]}, hard, per_prompt=8)
    examples = {example.id: example for example in task.load("train")}
    again = {v.id: v for v in scheduler.verify(task.check(examples[r["example_id"]], r["completion"], id=r["id"]) for r in hard.rollouts)}
    assert [row["id"] for row in hard.rollouts] == [row["id"] for row in hard.verdicts] == list(again)
    assert len(again) == len(set(again)) > 10
    for verdict in hard.verdicts:
        assert (verdict["status"], verdict["key"]) == (again[verdict["id"]].status, again[verdict["id"]].key)


def test_what_passes_or_does_not_run_is_counted_and_on_no_side(own: Callable, negatives: Callable) -> None:
    # DISTINCT changes nothing here, another literal or no filter does; COUNT(name) has the same value as COUNT(*).
    hard = negatives(most=20)
    rows, counts = own({"shop/count": ["SELECT COUNT(id) FROM item"], "shop/fruit": [FRUIT]}, hard, per_prompt=20)
    statuses = {verdict["id"]: verdict["status"] for verdict in hard.verdicts}
    used = {row["rejected_rollout"] for row in rows}
    assert used == {name for name, status in statuses.items() if status == "WRONG"}
    assert counts["mutations_passed"] == sum(status == "PASS" for status in statuses.values()) > 0
    assert counts["mutations_wrong"] == len(used)
    assert counts["mutations_failed"] == len(statuses) - len(used) - counts["mutations_passed"]
    assert counts["mutations_tried"] == counts["verifier_calls"] == len(statuses)
    by_name = counts["by_mutation"]
    assert sum(found["tried"] for found in by_name.values()) == len(statuses)
    assert sum(found.get("wrong", 0) for found in by_name.values()) == len(used)
    assert by_name["wrong_column"]["passed"] > 0


def test_own_wrong_answers_come_first_and_the_limit_holds(own: Callable, negatives: Callable) -> None:
    answers = {"shop/fruit": [FRUIT, "SELECT 1", "SELECT 2"], "farm/fruit": [FRUIT, "SELECT 1"]}
    for most, per_prompt, wanted in ((1, 1, (1, 0)), (1, 2, (2, 0)), (1, 4, (2, 1)), (3, 4, (2, 2))):
        rows, _ = own(answers, negatives(most), per_prompt=per_prompt)
        sources = [row["rejected_source"] for row in rows if row["database"] == "shop"]
        assert (sources.count("model"), sources.count("mutation")) == wanted
    hard = negatives(1)
    own(answers, hard, per_prompt=1)
    assert hard.rollouts == [], "nothing is executed where nothing is missing"
    hard = negatives(1)
    own({"shop/fruit": [FRUIT]}, hard, per_prompt=1)
    assert len(hard.rollouts) <= TRIES


def test_the_answer_around_the_query_stays_as_it_is(own: Callable, negatives: Callable) -> None:
    answer = f"Here you are:\n```sql\n{FRUIT};\n```\nThat is all."
    rows, _ = own({"shop/fruit": [answer]}, negatives())
    assert len(rows) == 2
    for row in rows:
        before, after = answer.split(FRUIT)
        assert text(row, "rejected").startswith(before) and text(row, "rejected").endswith(after)


def test_no_answer_that_the_model_gave_itself_is_made_again(own: Callable, negatives: Callable) -> None:
    every = negatives(64)
    own({"shop/fruit": [FRUIT]}, every, per_prompt=64)
    wrong = next(row["completion"] for row in every.rollouts if "DISTINCT" not in row["completion"])
    hard = negatives(64)
    own({"shop/fruit": [FRUIT, wrong]}, hard, per_prompt=64)
    assert hard.rollouts and wrong not in {row["completion"] for row in hard.rollouts}


def test_what_cannot_be_changed_stays_alone_and_is_counted(own: Callable, negatives: Callable, examples: list[Example]) -> None:
    escaped = '{"sql": "SELECT COUNT(*)\\nFROM item"}'
    rows, counts = own({"shop/count": [escaped]}, negatives())
    assert [row["rejected_ids"] for row in rows] == [None]
    assert (counts["mutations_impossible"], counts["mutations_tried"]) == (1, 0)


def test_the_same_seed_makes_the_same_answers(own: Callable, negatives: Callable) -> None:
    answers = {"shop/fruit": [FRUIT], "farm/fruit": [FRUIT]}
    found = []
    for seed in (3, 3, 4):
        hard = negatives(seed=seed)
        own(answers, hard)
        found.append([(row["id"], row["completion"]) for row in hard.rollouts])
    assert found[0] == found[1] != found[2]


def test_references_get_them_too_without_a_parent(
    task: SqlTask, answered: Answered, examples: list[Example], tokenize: Callable, negatives: Callable
) -> None:
    hard = negatives(1)
    asked = [example for example in examples if example.id.endswith("fruit")]
    rollouts, verdicts = answered({"shop/fruit": ["SELECT 1"]})
    rows, counts = reference_pairs(task, asked, rollouts, verdicts, replace(SETTINGS, per_prompt=1), tokenize, negatives=hard)
    assert [(row["example_id"], row["source"], row["rejected_source"]) for row in rows] == [
        ("shop/fruit", "reference", "model"), ("farm/fruit", "reference", "mutation"),
    ]  # fmt: skip
    assert {row["parent"] for row in hard.rollouts} == {None}
    assert counts["pairs"] == 2
