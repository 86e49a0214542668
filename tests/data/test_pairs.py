"""Pairs: a right answer over a wrong one or alone, each side with its receipt; what would train wrongly is dropped and counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from prefkit.data import pairs
from prefkit.data.pairs import STRATEGIES, Settings, own_pairs, reference_pairs

if TYPE_CHECKING:
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask

Row = dict[str, Any]
Answered = Callable[..., tuple[list[Row], list[Row]]]
END = 2
SETTINGS = Settings("all_capped", per_prompt=2, max_tokens=500, end_id=END, seed=0)
RIGHT, ALSO_RIGHT = "SELECT COUNT(*) FROM item", "SELECT COUNT(id) FROM item"


@pytest.fixture
def own(answered: Answered, examples: list[Example]) -> Callable[..., tuple[list[Row], Row]]:
    """Pairs from these answers of the model's own, with settings changed by name."""

    def own(
        answers: dict[str, list[str]], corrections: list[Row] | None = None, logprobs: dict[str, float] | None = None, **changes: Any
    ) -> Any:
        asked = [example for example in examples if example.id in answers]
        return own_pairs(asked, *answered(answers, logprobs), corrections or [], replace(SETTINGS, **changes))

    return own


@pytest.fixture
def references(task: SqlTask, answered: Answered, examples: list[Example], tokenize: Callable) -> Callable[..., tuple[list[Row], Row]]:
    """Pairs of references over these wrong answers."""

    def references(answers: dict[str, list[str]], change: Callable[[list[Row]], None] | None = None, **changes: Any) -> Any:
        asked = [example for example in examples if example.id in answers]
        rows, verdicts = answered(answers)
        if change:
            change(verdicts)
        return reference_pairs(task, asked, rows, verdicts, replace(SETTINGS, **changes), tokenize)

    return references


# Own answers


def test_a_right_answer_over_a_wrong_one_with_both_receipts(own: Callable, answered: Answered) -> None:
    answers = {"shop/count": ["SELECT 1", RIGHT]}
    (row,), counts = own(answers)
    _, verdicts = answered(answers)
    assert (text(row, "chosen"), text(row, "rejected")) == (RIGHT, "SELECT 1")
    assert (row["chosen_rollout"], row["rejected_rollout"]) == ("rollouts-1/shop/count/1", "rollouts-1/shop/count/0")
    assert (row["chosen_verdict"], row["rejected_verdict"]) == (verdicts[1]["key"], verdicts[0]["key"])
    assert (row["source"], row["rejected_status"]) == ("model", "WRONG")
    assert row["id"] == "rollouts-1/shop/count/1>rollouts-1/shop/count/0"
    assert (row["example_id"], row["database"], row["level"]) == ("shop/count", "shop", 1)
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    assert counts["rows"] == counts["pairs"] == counts["model"] == 1


def test_the_tokens_are_those_that_were_sampled_with_one_end_token(own: Callable, answered: Answered) -> None:
    answers = {"shop/count": [RIGHT, "SELECT 1"], "farm/count": ["SELECT 2", ALSO_RIGHT]}
    rows, _ = own(answers)
    sampled = {row["id"]: row for row in answered(answers)[0]}
    for row in rows:
        for side in ("chosen", "rejected"):
            assert row[f"{side}_ids"] == sampled[row[f"{side}_rollout"]]["completion_ids"]
            assert row[f"{side}_ids"].count(END) == 1 and row[f"{side}_ids"][-1] == END
        assert row["prompt_ids"] == sampled[row["chosen_rollout"]]["prompt_ids"]


def test_no_gold_is_ever_chosen_unless_the_model_wrote_it(own: Callable, answered: Answered, examples: list[Example]) -> None:
    answers = {
        "shop/count": [ALSO_RIGHT, "SELECT 1"], "farm/count": ["SELECT COUNT(name) FROM item", "SELECT 2"],
        "shop/fruit": ["SELECT i.name FROM item i WHERE i.kind = 'fruit'"] * 2, "farm/fruit": ["SELECT kind FROM item", "nothing"],
        "shop/names": ["SELECT item.name FROM item"], "farm/names": ["SELECT item.name FROM item"],
    }  # fmt: skip
    rows, counts = own(answers)
    verdicts = {verdict["id"]: verdict for verdict in answered(answers)[1]}
    golds = {gold for example in examples for gold in example.golds}
    assert (counts["rows"], counts["pairs"]) == (5, 2)
    for row in rows:
        assert verdicts[row["chosen_rollout"]]["score"] == 1
        said = {text(row, side) for side in ("chosen", "rejected") if row[side]}
        assert said <= {*answers[row["example_id"]]}
        assert not golds & said
        assert "gold" not in str(row)
    (row, *_), _ = own({"shop/count": [RIGHT, "SELECT 1"]})
    assert text(row, "chosen") in golds, "the model may write the gold itself"


def test_no_more_pairs_a_prompt_than_asked_for_and_each_says_something_new(own: Callable) -> None:
    answers = {"shop/count": [RIGHT, ALSO_RIGHT, "SELECT COUNT(name) FROM item", "SELECT 1", "SELECT 2", "SELECT 3"]}
    for most in (1, 2, 3, 5, 9, 20):
        rows, _ = own(answers, per_prompt=most)
        assert len(rows) == min(most, 9)
        if most <= 3:
            assert len({text(row, "chosen") for row in rows}) == len({text(row, "rejected") for row in rows}) == most
        assert len({row["id"] for row in rows}) == len(rows)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_strategies_choose_what_they_say(strategy: str, own: Callable) -> None:
    # Given often: RIGHT and SELECT 1. Least believed right answer: ALSO_RIGHT; most believed wrong one: SELECT 2.
    # Nearest: COUNT(id) and SUM(id).
    answers = {"shop/count": [RIGHT, RIGHT, ALSO_RIGHT, "SELECT 1", "SELECT 1", "SELECT 2", "SELECT SUM(id) FROM item"]}
    logprobs = {RIGHT: -1.0, ALSO_RIGHT: -9.0, "SELECT 1": -5.0, "SELECT 2": -0.1, "SELECT SUM(id) FROM item": -7.0}
    (row,), _ = own(answers, logprobs=logprobs, strategy=strategy, per_prompt=1)
    expected = {
        "max_margin": (ALSO_RIGHT, "SELECT 2"), "nearest": (ALSO_RIGHT, "SELECT SUM(id) FROM item"), "all_capped": (RIGHT, "SELECT 1"),
    }  # fmt: skip
    if strategy in expected:
        assert (text(row, "chosen"), text(row, "rejected")) == expected[strategy]
    else:
        drawn = {own(answers, strategy=strategy, per_prompt=1, seed=seed)[0][0]["id"] for seed in range(12)}
        assert len(drawn) > 2
        assert own(answers, strategy=strategy, seed=3) == own(answers, strategy=strategy, seed=3)


def test_a_solved_prompt_stays_with_its_right_answer_alone(own: Callable, answered: Answered) -> None:
    answers = {"shop/count": [ALSO_RIGHT, RIGHT, RIGHT], "shop/names": ["SELECT name FROM item", "SELECT 7"], "farm/fruit": ["SELECT 8"]}
    rows, counts = own(answers)
    (row,) = [row for row in rows if row["example_id"] == "shop/count"]
    assert text(row, "chosen") == RIGHT, "the answer that was given most often"
    assert row["chosen_verdict"] == {verdict["id"]: verdict["key"] for verdict in answered(answers)[1]}[row["chosen_rollout"]]
    assert has_no_rejected_side(row)
    assert row["id"] == "rollouts-1/shop/count/1>none"
    assert (counts["rows"], counts["pairs"], counts["model"]) == (2, 1, 2)
    assert (counts["prompts_all_right"], counts["prompts_none_right"]) == (1, 1)


def test_answers_that_did_not_end_are_on_no_side(own: Callable) -> None:
    answers = {"shop/count": [f"…{RIGHT}", "SELECT 1"], "farm/count": [RIGHT, "…SELECT 1"], "farm/names": ["SELECT name FROM item"]}
    rows, counts = own(answers)
    assert [row["example_id"] for row in rows] == ["farm/names", "farm/count"]
    assert all(map(has_no_rejected_side, rows))
    assert (counts["prompts_all_right"], counts["prompts_none_right"]) == (2, 1)


@pytest.mark.parametrize("status", ["INFRA", "UNVERIFIABLE", "REFUSED"])
def test_answers_that_were_not_judged_are_on_no_side(status: str, answered: Answered, examples: list[Example]) -> None:
    rows, (right, wrong) = answered({"shop/count": [RIGHT, "SELECT 1"]})
    unjudged = {"status": status, "score": None}
    assert own_pairs(examples[2:3], rows, [{**right, **unjudged}, wrong], [], SETTINGS)[0] == []
    (row,), _ = own_pairs(examples[2:3], rows, [right, {**wrong, **unjudged}], [], SETTINGS)
    assert text(row, "chosen") == RIGHT and has_no_rejected_side(row)


def test_corrections_are_rows_like_the_others(own: Callable, answered: Answered, examples: list[Example]) -> None:
    rollouts, verdicts = answered({"shop/count": [RIGHT, "SELECT 1"]}, turn=1)
    repair = pairs.correction_pair(examples[2], (rollouts[0], verdicts[0]), (rollouts[1], verdicts[1]))
    rows, counts = own({"farm/count": [RIGHT, "SELECT 1"]}, corrections=[repair])
    assert [row["source"] for row in rows] == ["model", "correction"]
    assert (counts["model"], counts["correction"], counts["rows"], counts["pairs"]) == (1, 1, 2, 2)


# References


def test_the_reference_over_the_query_inside_the_models_prose(references: Callable) -> None:
    prose = "Sure! You can use this:\n```sql\nSELECT 1\n```\nIt counts the items and"
    (row,), counts = references({"shop/count": [f"…{prose}"]})
    assert (text(row, "chosen"), text(row, "rejected")) == ("SELECT COUNT(*) FROM item", "SELECT 1")
    assert (row["source"], row["rejected_status"], row["chosen_rollout"]) == ("reference", "WRONG", None)
    assert row["rejected_rollout"] == "rollouts-1/shop/count/0" and row["rejected_verdict"]
    assert row["id"] == "shop/count/reference>rollouts-1/shop/count/0"
    assert all(row[side].count(END) == 1 and row[side][-1] == END for side in ("chosen_ids", "rejected_ids"))
    assert (counts["reference"], counts["model"], counts["rows"], counts["pairs"]) == (1, 0, 1, 1)


def test_the_first_wrong_answer_that_has_a_query_is_taken(references: Callable) -> None:
    (row,), _ = references({"shop/count": ["I cannot say.", RIGHT, "SELECT 1", "SELECT 2"]})
    assert text(row, "rejected") == "SELECT 1"


@pytest.mark.parametrize("said", [["I cannot say."], [RIGHT], ["…Well"], []], ids=["no query", "right already", "cut", "not asked"])
def test_where_there_is_no_wrong_query_the_reference_stands_alone(said: list[str], references: Callable) -> None:
    rows, counts = references({"shop/names": ["SELECT 1"], "shop/count": said, "farm/fruit": ["SELECT 1"]})
    assert [row["example_id"] for row in rows] == ["shop/names", "shop/count", "farm/fruit"], "in the order of the questions"
    row = rows[1]
    assert text(row, "chosen") == "SELECT COUNT(*) FROM item"
    assert row["chosen_ids"].count(END) == 1 and row["chosen_ids"][-1] == END
    assert has_no_rejected_side(row)
    assert row["id"] == "shop/count/reference>none"
    assert (counts["rows"], counts["reference"], counts["pairs"]) == (3, 3, 2)


def test_what_was_not_judged_is_no_wrong_answer(references: Callable) -> None:
    answers = {"shop/count": ["SELECT 1"], "shop/names": ["SELECT 2"]}

    def lose_one(verdicts: list[Row]) -> None:
        next(verdict for verdict in verdicts if "shop/count" in verdict["id"]).update(score=None, status="INFRA")

    rows, _ = references(answers, lose_one)
    by_question = {row["example_id"]: row for row in rows}
    assert has_no_rejected_side(by_question["shop/count"])
    assert text(by_question["shop/names"], "rejected") == "SELECT 2"


# Where no own answer is right


def test_without_a_fallback_a_question_without_a_right_answer_makes_nothing(own: Callable) -> None:
    rows, counts = own({"shop/count": ["SELECT 1", "SELECT 2"]})
    assert rows == [] and counts["prompts_none_right"] == 1


def test_the_reference_may_stand_in_where_no_own_answer_is_right(answered: Answered, examples: list[Example], tokenize: Callable) -> None:
    answers = {"shop/count": ["SELECT 1", "SELECT 2"], "farm/count": [ALSO_RIGHT, "SELECT 3"]}
    asked = [example for example in examples if example.id in answers]
    rows, counts = own_pairs(asked, *answered(answers), [], replace(SETTINGS, fallback=("reference",)), tokenize)
    by_question = {(row["example_id"], text(row, "rejected")): row for row in rows}
    assert {source: counts[source] for source in ("model", "reference")} == {"model": 1, "reference": 2}
    for wrong in ("SELECT 1", "SELECT 2"):
        row = by_question["shop/count", wrong]
        assert (text(row, "chosen"), row["source"], row["rejected_source"]) == (RIGHT, "reference", "model")
        assert row["chosen_ids"] == tokenize([{"messages": row["prompt"], "answers": [RIGHT]}])[0]["answer_ids"][0]
        assert row["chosen_rollout"] is row["chosen_verdict"] is None and row["rejected_rollout"] and row["rejected_verdict"]
    assert by_question["farm/count", "SELECT 3"]["source"] == "model", "own answers come first"


def test_a_reference_without_any_wrong_answer_stands_alone(answered: Answered, examples: list[Example], tokenize: Callable) -> None:
    rows, _ = own_pairs(examples[2:3], *answered({"shop/count": ["…SELECT 1"]}), [], replace(SETTINGS, fallback=("reference",)), tokenize)
    assert [row["source"] for row in rows] == ["reference"] and has_no_rejected_side(rows[0])


def test_a_logged_answer_stands_in_only_where_it_was_found_right(answered: Answered, examples: list[Example], tokenize: Callable) -> None:
    answers = {"shop/count": ["SELECT 1"], "farm/count": ["SELECT 2"]}
    asked = [example for example in examples if example.id in answers]
    logged, said = answered({"shop/count": ["SELECT 9", ALSO_RIGHT], "farm/count": ["SELECT 9"]}, model="history", logprobs=None)
    logged = [{**row, "id": row["id"].replace("rollouts-1", "history"), "completion_ids": [], "logprobs": []} for row in logged]
    said = [{**verdict, "id": verdict["id"].replace("rollouts-1", "history")} for verdict in said]
    settings = replace(SETTINGS, fallback=("history", "reference"))
    rows, counts = own_pairs(asked, *answered(answers), [], settings, tokenize, (logged, said))
    shop, farm = sorted(rows, key=lambda row: row["database"], reverse=True)
    assert (text(shop, "chosen"), shop["source"], shop["chosen_rollout"]) == (ALSO_RIGHT, "history", "history/shop/count/1")
    assert shop["chosen_verdict"] == said[0 if said[0]["score"] else 1]["key"] and shop["chosen_ids"][-1] == END
    assert (farm["source"], counts["history"], counts["reference"]) == ("reference", 1, 1), "the next fallback, where the log is no help"


def test_the_sides_say_where_they_come_from(own: Callable, references: Callable) -> None:
    rows, _ = own({"shop/count": [RIGHT, "SELECT 1"], "farm/count": [RIGHT]})
    assert [(row["source"], row["rejected_source"]) for row in rows] == [("model", "model"), ("model", None)]
    assert [row["rejected_source"] for row in references({"shop/count": ["SELECT 1"]})[0]] == ["model"]


# What a recipe gives stays what it was

FROZEN = {
    "max_margin/1": "q0/6>q0/2 q1/1>q1/2 q2/1>q2/5",
    "max_margin/3": "q0/6>q0/2 q0/0>q0/7 q0/6>q0/1 q1/1>q1/2 q1/0>q1/7 q1/1>q1/7 q2/1>q2/5 q2/0>q2/7 q2/1>q2/4",
    "nearest/1": "q0/0>q0/1 q1/1>q1/7 q2/0>q2/4",
    "nearest/3": "q0/0>q0/1 q0/6>q0/7 q0/0>q0/2 q1/1>q1/7 q1/0>q1/2 q1/1>q1/2 q2/0>q2/4 q2/1>q2/5 q2/0>q2/7",
    "random/1": "q0/6>q0/7 q1/1>q1/7 q2/0>q2/7",
    "random/3": "q0/6>q0/7 q0/0>q0/1 q0/0>q0/2 q1/1>q1/7 q1/0>q1/2 q1/0>q1/7 q2/0>q2/7 q2/1>q2/4 q2/0>q2/5",
    "all_capped/1": "q0/0>q0/1 q1/1>q1/2 q2/0>q2/5",
    "all_capped/3": "q0/0>q0/1 q0/6>q0/2 q0/0>q0/7 q1/1>q1/2 q1/0>q1/7 q1/1>q1/7 q2/0>q2/5 q2/1>q2/4 q2/0>q2/7",
}
TEXTS = [
    "SELECT name FROM item", "SELECT name FROM item WHERE kind = 'fruit'", "SELECT COUNT(*) FROM item", "SELECT id FROM item",
    "SELECT name FROM items", "SELECT name, kind FROM item", "SELECT MAX(price) FROM item", "SELECT AVG(price) FROM item",
]  # fmt: skip


@pytest.mark.parametrize("name", FROZEN)
def test_the_same_answers_give_the_same_pairs_as_ever(name: str) -> None:
    from prefkit.tasks.base import Example

    strategy, _, most = name.partition("/")
    examples, rollouts, verdicts = [], [], []
    for question in range(3):
        examples.append(Example(f"q{question}", "train", "shop", 1, "?", "SELECT 1"))
        for k in range(8):
            said = TEXTS[(k * (question + 3) + k * k) % 8] + " " * (k == 7)
            identity, ids = f"rollouts-1/q{question}/{k}", [*map(ord, said), END]
            rollouts.append({
                "id": identity, "example_id": f"q{question}", "messages": [{"role": "user", "content": f"q{question}?"}],
                "prompt_ids": [5, question + 10], "completion": said, "completion_ids": ids,
                "logprobs": [-((k * 7 + question) % 11) / 10] * len(ids), "ended": True,
            })  # fmt: skip
            right = len(said) % 3 == 0
            verdicts.append({"id": identity, "status": "PASS" if right else "WRONG", "score": float(right), "key": f"key-{identity}"})
    rows, _ = own_pairs(examples, rollouts, verdicts, [], Settings(strategy, int(most), 500, END, 17))
    assert " ".join(row["id"].replace("rollouts-1/", "") for row in rows) == FROZEN[name]


def has_no_rejected_side(row: Row) -> bool:
    return all(row[f"rejected{part}"] is None for part in ("", "_ids", "_rollout", "_verdict", "_status", "_source", "_reason"))


def text(row: Row, side: str) -> str:
    (message,) = row[side]
    assert message["role"] == "assistant"
    return message["content"]
