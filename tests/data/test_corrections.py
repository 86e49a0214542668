"""Corrections: further turns know what the verifier said and nothing of the gold; only wrong answers get them; every trajectory says how it
ended, and a control of fresh answers stands beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prefkit.data import corrections
from prefkit.data.rollouts import Request, Sampling, collect
from prefkit.data.trajectories import Trajectory, figures

if TYPE_CHECKING:
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask
    from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]
Answered = Callable[..., tuple[list[Row], list[Row]]]
Run = Callable[..., tuple[list[Trajectory], list[Request]]]
COUNT, FRUIT = "SELECT COUNT(*) FROM item", "SELECT name FROM item WHERE kind = 'fruit'"
FIRST = {
    "shop/count": ["SELECT id FROM item", COUNT, "SELECT id FROM item", "SELECT 1"],
    "farm/count": [COUNT, COUNT, COUNT, COUNT],
    "shop/fruit": ["SELECT nothing FROM item", "SELECT 1", "SELECT 2", "…SELECT name"],
    "farm/fruit": ["SELECT 1"] * 4,
    "farm/names": ["…SELECT name", "…SELECT", "…", "…"],
}
LATER = {
    "shop/count/turn-1": [COUNT, "SELECT 2"],
    "shop/fruit/turn-1": ["SELECT name FROM item", "SELECT 3"],
    "shop/fruit/turn-2": ["SELECT 4", FRUIT],
    "farm/fruit/turn-1": ["SELECT 3", "SELECT 3"],
    "farm/fruit/turn-2": ["SELECT 4", "SELECT 5"],
    "shop/count/fresh": ["SELECT 6", COUNT, COUNT, "SELECT 7"],
}
SAMPLING = Sampling({"name": "stand-in"}, None, k=2, temperature=1.0, max_new_tokens=99, seed=5)


@pytest.fixture
def corrected(answered: Answered, task: SqlTask, examples: list[Example], pool: Any, scheduler: Scheduler, tmp_path: Path) -> Run:
    """Trajectories of FIRST with the further answers `later`, and everything that was asked for them."""

    def run(later: dict[str, list[str]] = LATER, turns: int = 2, first: dict[str, list[str]] = FIRST) -> tuple[list[Trajectory], list]:
        asked: list[Request] = []
        folder = Path(tempfile.mkdtemp(dir=tmp_path))

        def ask(part: str, requests: list[Request], k: int) -> tuple[list[Row], list[Row]]:
            asked.extend(requests)
            sampling = Sampling(SAMPLING.model, None, k, 1.0, 99, 5)
            file = folder / f"{part}.partial.jsonl"
            return collect("corrections-1", requests, sampling, task, pool(later), scheduler, file, lambda *_: None)

        found = corrections.failures(examples, *answered(first))
        corrections.correct(task, found, turns, partial(ask, k=2))
        corrections.draw_fresh(task, found, partial(ask, k=2 * turns))
        return found, asked

    return run


def by_question(found: list[Trajectory]) -> dict[str, Trajectory]:
    return {one.example.id: one for one in found}


def counted(found: list[Trajectory]) -> Row:
    return figures([one.row() for one in found], [pair for one in found if (pair := one.pair())])


# What is asked


def test_a_trajectory_begins_with_the_wrong_answer_that_was_given_most_often(answered: Answered, examples: list[Example]) -> None:
    found = corrections.failures(examples, *answered(FIRST))
    assert [(one.example.id, one.last.answer[0]["id"]) for one in found] == [
        ("shop/count", "rollouts-1/shop/count/0"),  # given twice
        ("shop/fruit", "rollouts-1/shop/fruit/0"),  # the first of those given once
        ("farm/fruit", "rollouts-1/farm/fruit/0"),
    ]


def test_a_wrong_answer_without_feedback_or_score_begins_nothing(answered: Answered, examples: list[Example]) -> None:
    rows, verdicts = answered({"shop/count": ["SELECT 1"]})
    assert corrections.failures(examples, rows, verdicts)
    assert corrections.failures(examples, rows, [{**verdicts[0], "feedback": None}]) == []
    assert corrections.failures(examples, rows, [{**verdicts[0], "score": None, "status": "INFRA"}]) == []


def test_only_what_failed_gets_a_further_turn_and_each_follows_on_the_last(corrected: Run, task: SqlTask) -> None:
    found, asked = corrected()
    assert [(request.name, request.turn, request.parent) for request in asked] == [
        ("shop/count/turn-1", 1, "rollouts-1/shop/count/0"),
        ("shop/fruit/turn-1", 1, "rollouts-1/shop/fruit/0"),
        ("farm/fruit/turn-1", 1, "rollouts-1/farm/fruit/0"),
        ("shop/fruit/turn-2", 2, "corrections-1/shop/fruit/turn-1/0"),
        ("farm/fruit/turn-2", 2, "corrections-1/farm/fruit/turn-1/0"),
        *((f"{name}/fresh", 0, None) for name in ("shop/count", "shop/fruit", "farm/fruit")),
    ]
    second = next(request for request in asked if request.name == "shop/fruit/turn-2")
    fruit = by_question(found)["shop/fruit"]
    said = [turn.answer[1]["feedback"] for turn in fruit.turns[:2]]
    assert second.messages == [
        *task.prompt(fruit.example),
        {"role": "assistant", "content": "SELECT nothing FROM item"},
        {"role": "user", "content": f"{said[0]}\nAnswer with a corrected query."},
        {"role": "assistant", "content": "SELECT name FROM item"},
        {"role": "user", "content": f"{said[1]}\nAnswer with a corrected query."},
    ]
    assert all(request.messages == task.prompt(request.example) for request in asked if request.name.endswith("/fresh"))


@pytest.mark.parametrize("turns", [1, 2, 5])
def test_there_are_at_most_so_many_turns_and_as_many_fresh_answers(turns: int, corrected: Run) -> None:
    found, asked = corrected({}, turns=turns)
    assert {len(one.turns) - 1 for one in found} == {turns}
    assert {len(one.fresh) for one in found} == {2 * turns}
    assert max(request.turn for request in asked) == turns


def test_an_answer_that_cannot_be_spoken_of_ends_a_trajectory(corrected: Run) -> None:
    """A repair that did not end, with nothing to put feedback after."""
    found, asked = corrected({"shop/fruit/turn-1": ["…SELECT", "…SELECT na"]})
    assert by_question(found)["shop/fruit"].end == "open"
    assert "shop/fruit/turn-2" not in [request.name for request in asked]
    assert "farm/fruit/turn-2" in [request.name for request in asked]


def test_no_turn_holds_anything_of_the_gold(corrected: Run, task: SqlTask, examples: list[Example]) -> None:
    """Neither its text nor the rows it returns nor their number: only what the wrong answers themselves brought up."""
    first = {
        "shop/fruit": ["SELECT price FROM item WHERE id = 3"], "farm/dearest": ["SELECT nothing FROM item"], "shop/names": ["no query"],
        "farm/count": ["SELECT kind FROM item WHERE 0"], "shop/dearest": ["DELETE FROM item"], "farm/fruit": ["SELECT id, id FROM item"],
    }  # fmt: skip
    hidden = {
        "fruit": ("pear", "fig", "plum", "kind ="),
        "dearest": ("kale", "plum", "ORDER BY"),
        "names": ("pear", "plum"),
        "count": ("COUNT", " 4", " 3"),
    }
    later = {f"{name}/turn-1": ["SELECT 9 AS nine", "SELECT 8 AS eight"] for name in first}
    _, asked = corrected(later, first=first)
    requests = [request for request in asked if request.turn]
    assert [request.turn for request in requests] == [1] * 6 + [2] * 6
    for request in requests:
        prompt = task.prompt(request.example)
        assert request.messages[: len(prompt)] == prompt
        said = [message["content"] for message in request.messages[len(prompt) :] if message["role"] == "user"]
        assert len(said) == request.turn and all(text.endswith("Answer with a corrected query.") for text in said)
        for word in (*request.example.golds, *hidden[request.example.id.split("/")[1]], "expected"):
            assert not [text for text in said if word.lower() in text.lower()], word


# What comes of it


def test_trajectories_end_as_they_ended(corrected: Run) -> None:
    rows = {row["example_id"]: row for row in (one.row() for one in corrected()[0])}
    assert {name: row["end"] for name, row in rows.items()} == {"shop/count": "repaired", "shop/fruit": "repaired", "farm/fruit": "open"}
    fruit, still_wrong = rows["shop/fruit"], rows["farm/fruit"]
    assert [turn["content"] for turn in fruit["turns"]] == ["SELECT nothing FROM item", "SELECT name FROM item", FRUIT]
    assert [turn["status"] for turn in fruit["turns"]] == ["CRASH", "WRONG", "PASS"]
    assert fruit["turns"][0]["reason"] == 'syntax error near "nothing"'
    assert [turn["train"] for turn in fruit["turns"]] == [False, False, True], "a wrong turn is context, never a target"
    assert [[one["score"] for one in turn["tries"]] for turn in fruit["turns"]] == [[], [0, 0], [0, 1]]
    assert fruit["turns"][2]["rollout"] == fruit["turns"][2]["tries"][1]["rollout"] == "corrections-1/shop/fruit/turn-2/1"
    assert all(turn["rollout"] and turn["verdict"] for row in rows.values() for turn in row["turns"])
    assert fruit["prompt"][-1]["content"].startswith(fruit["turns"][1]["feedback"])
    assert fruit["completion"] == [{"role": "assistant", "content": FRUIT}]
    assert still_wrong["completion"] is None, "nothing wrong stands where a trainer looks for what to learn"
    assert [one["score"] for one in rows["shop/count"]["fresh"]] == [0, 1, 1, 0]


def test_labels_stand_on_the_repaired_turn_alone(corrected: Run) -> None:
    for one in corrected()[0]:
        row, (rollout, _) = one.row(), one.last.answer
        prompt = len(rollout["prompt_ids"])
        assert row["input_ids"] == rollout["prompt_ids"] + rollout["completion_ids"]
        assert len(row["labels"]) == len(row["input_ids"])
        assert row["labels"][:prompt] == [-100] * prompt
        taught = rollout["completion_ids"] if one.repaired else [-100] * len(rollout["completion_ids"])
        assert row["labels"][prompt:] == taught


def test_the_gold_closes_what_was_not_repaired_and_is_marked(corrected: Run, tokenize: Callable) -> None:
    found, _ = corrected()
    without = str([one.row() for one in found if one.example.id == "farm/fruit"])
    assert FRUIT not in without, "no gold where nobody put one"
    corrections.close_with_references(found, tokenize)
    rows = {one.example.id: one.row() for one in found}
    assert {name: row["end"] for name, row in rows.items()} == {
        "shop/count": "repaired",
        "shop/fruit": "repaired",
        "farm/fruit": "reference",
    }
    row, last = rows["farm/fruit"], rows["farm/fruit"]["turns"][-1]
    assert (last["content"], last["train"], last["rollout"], last["verdict"]) == (FRUIT, True, None, None)
    assert [one["score"] for one in last["tries"]] == [0, 0], "the answers in whose place it stands are still named"
    assert row["completion"] == [{"role": "assistant", "content": FRUIT}] and row["id"].endswith("~reference")
    taught = tokenize([{"messages": row["prompt"], "answers": [FRUIT]}])[0]["answer_ids"][0]
    assert [label for label in row["labels"] if label != -100] == taught == row["input_ids"][-len(taught) :]
    pair = next(one for one in found if one.example.id == "farm/fruit").pair()
    assert pair is not None
    assert (pair["source"], pair["chosen_rollout"], pair["chosen_verdict"], pair["chosen_ids"]) == ("reference", None, None, taught)
    assert (pair["rejected"][0]["content"], pair["rejected_rollout"]) == ("SELECT 4", "corrections-1/farm/fruit/turn-2/0")


def test_repairs_become_pairs_over_wrong_repairs_of_the_same_feedback(corrected: Run) -> None:
    pairs = {one.example.id: one.pair() for one in corrected()[0]}
    assert pairs["farm/fruit"] is None
    count, fruit = pairs["shop/count"], pairs["shop/fruit"]
    assert count is not None and fruit is not None
    assert (count["source"], count["chosen"][0]["content"], count["rejected"][0]["content"]) == ("correction", COUNT, "SELECT 2")
    assert count["prompt"][-2]["content"] == "SELECT id FROM item", "the prompt is the failed turn with its feedback"
    assert (fruit["chosen"][0]["content"], fruit["rejected"][0]["content"]) == (FRUIT, "SELECT 4")
    assert [message["content"] for message in fruit["prompt"] if message["role"] == "assistant"] == [
        "SELECT nothing FROM item", "SELECT name FROM item",
    ]  # fmt: skip
    assert fruit["chosen_rollout"] == "corrections-1/shop/fruit/turn-2/1"


def test_a_repair_without_a_wrong_one_beside_it_teaches_by_likelihood_alone(corrected: Run) -> None:
    found, _ = corrected({"shop/count/turn-1": [COUNT, COUNT]}, turns=1)
    pair = by_question(found)["shop/count"].pair()
    assert pair is not None and pair["chosen"][0]["content"] == COUNT and pair["rejected"] is None and pair["id"].endswith(">none")


def test_a_right_answer_that_did_not_end_solves_the_question_and_teaches_nothing(corrected: Run) -> None:
    found, asked = corrected({"shop/count/turn-1": ["SELECT 2", f"…{COUNT}"]})
    count = by_question(found)["shop/count"]
    assert count.end == "repaired" and count.pair() is None and count.row()["completion"] is None
    assert set(count.row()["labels"]) == {-100}
    assert "shop/count/turn-2" not in [request.name for request in asked]
    both, _ = corrected({"shop/count/turn-1": [f"…{COUNT}", COUNT]}, turns=1)
    assert by_question(both)["shop/count"].pair() is not None, "of two right ones, the one that ended"


def test_repairs_are_counted_beside_fresh_answers(corrected: Run, tokenize: Callable) -> None:
    found, _ = corrected()
    assert counted(found) == {
        "trajectories": 3, "repaired": 2, "repaired_first_turn": 1, "closed_by_reference": 0, "open": 1, "repair_tries": 10,
        "repair_tries_right": 2, "repaired_share": 0.6667, "fresh_share": 0.3333, "correction_rows": 2, "correction_pairs": 2,
    }  # fmt: skip
    corrections.close_with_references(found, tokenize)
    closed = counted(found)
    assert (closed["closed_by_reference"], closed["open"], closed["correction_rows"]) == (1, 0, 3)
    assert closed["repaired_share"] == 0.6667, "a gold is no repair"


def test_trajectories_are_made_again_from_the_rows_alone(corrected: Run, answered: Answered, examples: list[Example]) -> None:
    found, _ = corrected()
    drawn = {row["id"]: (row, verdict) for one in found for turn in one.turns for row, verdict in turn.tries}
    drawn |= {row["id"]: (row, verdict) for one in found for row, verdict in one.fresh}
    later = [row for row, _ in drawn.values()], [verdict for _, verdict in drawn.values()]
    again = corrections.replayed(examples, answered(FIRST), later)
    assert [(one.row(), one.pair()) for one in again] == [(one.row(), one.pair()) for one in found]
    assert [one.end for one in corrections.replayed(examples, answered(FIRST), ([], []))] == ["open"] * 3


def test_without_wrong_answers_there_is_nothing_to_ask_or_to_count(corrected: Run) -> None:
    found, asked = corrected(first={"shop/count": [COUNT]})
    assert (found, asked) == ([], [])
    assert counted(found)["repaired_share"] is None and counted(found)["fresh_share"] is None
