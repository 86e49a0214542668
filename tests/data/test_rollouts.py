"""Rollouts are committed batch by batch: a killed stage asks nothing twice and ends with the rows of one that was not killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prefkit.data.rollouts import Request, Sampling, collect, figures, first_turn, grouped
from prefkit.errors import RunError

if TYPE_CHECKING:
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask
    from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]
Pool = Callable[..., Any]
Collect = Callable[..., tuple[list[Row], list[Row]]]
# Four answers in a batch: two prompts with two answers each.
SAMPLING = Sampling({"name": "stand-in"}, None, k=2, temperature=1.0, max_new_tokens=16, seed=5, branches=4)
ANSWERS = {
    "shop/names": ["SELECT name FROM item", "SELECT kind FROM item"],
    "farm/count": ["no idea", "SELECT COUNT(*) FROM item"],
    "shop/dearest": ["SELECT nothing FROM item", "DELETE FROM item"],
}


@pytest.fixture
def asked(task: SqlTask, examples: list[Example], scheduler: Scheduler, tmp_path: Path) -> Collect:
    """Collect answers to all questions from a pool."""

    def asked(
        pool: Any,
        sampling: Sampling = SAMPLING,
        requests: list[Request] | None = None,
        advance: Callable = lambda *_: None,
        **more: Any,
    ) -> Any:
        wanted = first_turn(task, examples) if requests is None else requests
        return collect("rollouts-0", wanted, sampling, task, pool, scheduler, tmp_path / "rollouts/partial.jsonl", advance, **more)

    return asked


def test_rows_come_in_the_order_of_the_questions_with_their_verdicts(asked: Collect, pool: Pool, examples: list[Example]) -> None:
    rows, verdicts = asked(pool(ANSWERS))
    assert [(row["example_id"], row["k"]) for row in rows] == [(example.id, k) for example in examples for k in range(2)]
    assert [row["id"] for row in rows] == [f"rollouts-0/{row['example_id']}/{row['k']}" for row in rows]
    assert [verdict["id"] for verdict in verdicts] == [row["id"] for row in rows]
    found = {(row["example_id"], row["completion"]): verdict for row, verdict in zip(rows, verdicts, strict=True)}
    assert found["shop/names", "SELECT name FROM item"]["score"] == 1
    assert found["shop/names", "SELECT kind FROM item"]["status"] == "WRONG"
    assert found["farm/count", "no idea"]["reason"] == "no SQL in the answer"
    assert found["shop/dearest", "SELECT nothing FROM item"]["status"] == "CRASH"
    assert found["shop/dearest", "DELETE FROM item"]["status"] == "POLICY"
    assert {row["split"] for row in rows} == {"train"} and {row["seed"] for row in rows} == {5}
    assert all(isinstance(verdict["versions"], str) for verdict in verdicts), "a column with free keys is JSON text"


def test_a_batch_has_as_many_prompts_as_fit_and_questions_on_one_database_stand_together(asked: Collect, pool: Pool) -> None:
    one = pool()
    asked(one)
    assert [len(names) for names in one.asked] == [2, 2, 2, 2]
    assert all(len({name.split("/")[1] for name in names}) == 1 for names in one.asked)
    assert all(name.startswith("rollouts-0/") for names in one.asked for name in names), "the stage is part of what seeds an answer"
    wide = pool()
    asked(wide, replace(SAMPLING, branches=1))
    assert [len(names) for names in wide.asked] == [1] * 8, "a prompt is not divided"
    assert {name: value for name, value in one.arguments[0].items() if name != "prompts"} == {
        "model": {"name": "stand-in"}, "adapter": None, "k": 2, "greedy": False, "temperature": 1.0, "max_new_tokens": 16, "seed": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("processes", "branches", "sizes"),
    [(1, 64, [8]), (2, 64, [4, 4]), (3, 64, [2, 3, 3]), (2, 6, [2, 2, 2, 2]), (2, 4, [2] * 4), (9, 64, [1] * 8)],
)
def test_batches_are_even_so_that_no_process_waits_for_another(
    processes: int, branches: int, sizes: list[int], asked: Collect, pool: Pool
) -> None:
    one = pool(processes=processes)
    rows, _ = asked(one, replace(SAMPLING, branches=branches))
    assert sorted(map(len, one.asked)) == sizes
    assert [row["id"] for row in rows] == [row["id"] for row in asked(pool())[0]]


def test_the_greedy_answer_comes_before_the_samples_and_counts_as_one_of_the_batch(
    asked: Collect, pool: Pool, examples: list[Example]
) -> None:
    one = pool(ANSWERS)
    rows, verdicts = asked(one, replace(SAMPLING, greedy=True, branches=6, temperature=0.7))
    assert [len(names) for names in one.asked] == [2, 2, 2, 2] and one.arguments[0]["greedy"]
    labels = ("greedy", "0", "1")
    assert [row["id"] for row in rows] == [f"rollouts-0/{example.id}/{label}" for example in examples for label in labels]
    assert [(row["k"], row["temperature"]) for row in rows[:3]] == [(0, 0.0), (0, 0.7), (1, 0.7)]
    assert [row["completion"] for row in rows[:3]] == ["SELECT 'greedy'", *ANSWERS["shop/names"]]
    assert [verdict["score"] for verdict in verdicts[:3]] == [0, 1, 0]
    alone, _ = asked(pool(), replace(SAMPLING, greedy=True, k=0))
    assert [row["id"] for row in alone] == [f"rollouts-0/{example.id}/greedy" for example in examples]


def test_progress_is_told_of_each_batch(asked: Collect, pool: Pool) -> None:
    told: list[tuple[int, dict[str, float]]] = []
    asked(pool(ANSWERS), advance=lambda count, values: told.append((count, values)))
    assert [count for count, _ in told] == [2, 2, 2, 2]
    assert told[-1][1] == {"right": round(2 / 16, 3)}


@pytest.mark.parametrize("stop", [0, 1, 3])
def test_a_killed_stage_asks_only_what_is_missing_and_ends_with_the_same_rows(
    stop: int, asked: Collect, pool: Pool, killed: type[BaseException], tmp_path: Path
) -> None:
    whole = asked(pool(ANSWERS))
    partial = tmp_path / "rollouts/partial.jsonl"
    partial.unlink()
    first = pool(ANSWERS, stop=stop)
    with pytest.raises(killed):
        asked(first)
    second = pool(ANSWERS)
    resumed = asked(second)
    assert len(first.asked) == stop
    assert len(second.asked) == 4 - stop
    assert sorted(first.asked + second.asked) == sorted({tuple(names): names for names in first.asked + second.asked}.values())
    assert without_timings(resumed) == without_timings(whole)
    third = pool(ANSWERS)
    assert without_timings(asked(third)) == without_timings(whole)
    assert third.asked == []


@pytest.mark.parametrize("cut", [1, 20, 400])
def test_a_torn_last_line_is_asked_again(cut: int, asked: Collect, pool: Pool, killed: type[BaseException], tmp_path: Path) -> None:
    partial = tmp_path / "rollouts/partial.jsonl"
    with pytest.raises(killed):
        asked(pool(ANSWERS, stop=2))
    partial.write_bytes(partial.read_bytes()[:-cut])
    second = pool(ANSWERS)
    resumed = asked(second)
    assert len(second.asked) == 3
    lines = [json.loads(line) for line in partial.read_text().splitlines()]
    assert sorted(line["batch"] for line in lines[1:]) == [0, 1, 2, 3]
    partial.unlink()
    assert without_timings(resumed) == without_timings(asked(pool(ANSWERS)))


def test_a_file_torn_in_its_first_line_counts_for_nothing(asked: Collect, pool: Pool, killed: type[BaseException], tmp_path: Path) -> None:
    with pytest.raises(killed):
        asked(pool(ANSWERS, stop=0))
    partial = tmp_path / "rollouts/partial.jsonl"
    partial.write_bytes(partial.read_bytes()[:10])
    second = pool(ANSWERS)
    asked(second)
    assert len(second.asked) == 4


@pytest.mark.parametrize("broken", [b"\0" * 40, b'{"batch": 1', b"[1, 2]", b'{"results": []}', b"\xff\xfe"])
def test_a_broken_line_is_cut_off_with_what_follows(broken: bytes, asked: Collect, pool: Pool, tmp_path: Path) -> None:
    """As a power cut leaves it: blocks that never reached the disk."""
    whole = asked(pool(ANSWERS))
    partial = tmp_path / "rollouts/partial.jsonl"
    header, first, second, *_ = partial.read_bytes().splitlines(keepends=True)
    partial.write_bytes(header + first + broken + b"\n" + second)
    resumed = pool(ANSWERS)
    assert without_timings(asked(resumed)) == without_timings(whole)
    assert len(resumed.asked) == 3
    assert partial.read_bytes().startswith(header + first)
    assert [json.loads(line)["batch"] for line in partial.read_bytes().splitlines()[2:]] != []


def test_a_full_disk_is_a_message_and_keeps_what_was_committed(
    asked: Collect, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno
    import os

    room = [3000]

    def pwrite(file: int, data: bytes, place: int) -> int:
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = data[: room[0]]
        room[0] -= len(part)
        return write(file, part, place)

    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", pwrite)
    first = pool(ANSWERS)
    with pytest.raises(RunError, match=r"No space left on device\. \d batches are kept in it\. Make room .* --resume"):
        asked(first)
    partial = tmp_path / "rollouts/partial.jsonl"
    kept = len(partial.read_bytes().splitlines()) - 1
    assert partial.read_bytes().endswith(b"\n") and 1 <= kept < 4
    room[0] = 1 << 30
    second = pool(ANSWERS)
    asked(second)
    assert len(second.asked) == 4 - kept


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_a_disk_that_is_full_from_the_start_is_a_message_as_well(asked: Collect, pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "rollouts/partial.jsonl").symlink_to("/dev/full")
    with pytest.raises(RunError, match=r"No space left on device\. 0 batches are kept"):
        asked(pool(ANSWERS))


@pytest.mark.parametrize("change", ["seed", "adapter", "temperature", "question"])
def test_what_belongs_to_other_requests_is_ignored(
    change: str, asked: Collect, pool: Pool, task: SqlTask, examples: list[Example], killed: type[BaseException]
) -> None:
    with pytest.raises(killed):
        asked(pool(ANSWERS, stop=2))
    values = {"seed": 6, "adapter": "round-0", "temperature": 0.5}
    sampling = replace(SAMPLING, **{change: values[change]}) if change in values else SAMPLING
    requests = first_turn(task, examples)
    if change == "question":
        requests[-1] = replace(requests[-1], messages=[{"role": "user", "content": "Another question?"}])
    second = pool(ANSWERS)
    rows, _ = asked(second, sampling, requests)
    assert len(second.asked) == 4
    assert {row["seed"] for row in rows} == {sampling.seed}
    third = pool(ANSWERS)
    asked(third, sampling, requests)
    assert third.asked == [], "the new requests' file took the place of the old one's"


def test_second_turns_know_their_parents(asked: Collect, pool: Pool, task: SqlTask, examples: list[Example]) -> None:
    messages = task.correction_prompt(task.prompt(examples[0]), "SELECT 1", "wrong")
    request = Request(f"{examples[0].id}/turn-1", examples[0], messages, turn=1, parent="rollouts-0/shop/names/1")
    rows, verdicts = asked(pool({request.name: ["SELECT name FROM item", "SELECT 2"]}), requests=[request])
    assert [row["id"] for row in rows] == ["rollouts-0/shop/names/turn-1/0", "rollouts-0/shop/names/turn-1/1"]
    assert [verdict["id"] for verdict in verdicts] == [row["id"] for row in rows]
    assert all((row["turn"], row["parent"], row["example_id"]) == (1, "rollouts-0/shop/names/1", "shop/names") for row in rows)
    assert [verdict["score"] for verdict in verdicts] == [1, 0]


def test_a_stream_of_its_own_seeds_the_answers_and_leaves_the_names(asked: Collect, pool: Pool, killed: type[BaseException]) -> None:
    """Two policies that are asked under one stream draw the same numbers."""
    first = pool(ANSWERS)
    rows, _ = asked(first, stream="probe")
    assert all(name.startswith("probe/") for names in first.asked for name in names)
    assert all(row["id"].startswith("rollouts-0/") for row in rows)
    other = pool(ANSWERS)
    asked(other)
    assert len(other.asked) == 4, "what was drawn under another stream is not taken"


def test_nothing_is_asked_for_no_questions(asked: Collect, pool: Pool) -> None:
    empty = pool()
    assert asked(empty, requests=[]) == ([], [])
    assert empty.asked == []


def test_figures_count_what_there_is(answered: Callable[..., tuple[list[Row], list[Row]]]) -> None:
    rows, verdicts = answered(
        {
            "shop/names": ["SELECT name FROM item", "SELECT name FROM item", "SELECT 1"],
            "farm/names": ["SELECT 1", "…SELECT", "none"],
            "shop/count": ["SELECT COUNT(*) FROM item"] * 3,
        }
    )
    verdicts[-1] |= {"status": "INFRA", "score": None}
    counted = figures(rows, verdicts)
    expected = {
        "prompts": 3, "answers": 9, "unique": 6, "truncated": 1, "right": 4, "prompts_with_right": 2, "mixed": 2, "verifier_calls": 9,
        "not_judged": 1,
    }  # fmt: skip
    assert {name: counted[name] for name in expected} == expected
    assert counted["tokens"] == sum(len(row["completion_ids"]) for row in rows)
    assert [len(group) for group in grouped(rows, verdicts).values()] == [3, 3, 3]


def test_a_stage_whose_verification_was_cut_asks_nothing_twice(
    asked: Collect, pool: Pool, killed: type[BaseException], scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A batch is committed before it is verified: what was answered is kept, and verified again."""
    whole = asked(pool(ANSWERS))
    (tmp_path / "rollouts/partial.jsonl").unlink()
    verify, verified = scheduler.verify, []

    def cut(checks: Any) -> Any:
        for verdict in verify(checks):
            if len(verified) == 6:
                raise killed
            verified.append(verdict.id)
            yield verdict

    first = pool(ANSWERS)
    with monkeypatch.context() as patch, pytest.raises(killed):
        patch.setattr(scheduler, "verify", cut)
        asked(first)
    second = pool(ANSWERS)
    assert without_timings(asked(second)) == without_timings(whole)
    assert len(first.asked) == 2 and len(second.asked) == 2
    assert not {name for names in first.asked for name in names} & {name for names in second.asked for name in names}


def test_rows_say_how_long_they_are_and_how_they_ended(asked: Collect, pool: Pool) -> None:
    answers = {"shop/names": ["SELECT name", "…SELECT name FROM item WHERE"], "farm/names": ["…SELECT", "SELECT kind FROM"]}
    rows, _ = asked(pool(answers))
    found = {(row["example_id"], row["k"]): (row["tokens"], row["ended"], row["truncated"]) for row in rows}
    assert found["shop/names", 0] == (12, True, False), "the end token is one of them"
    assert found["shop/names", 1] == (27, False, True), "as long as it may be, and no end"
    assert found["farm/names", 0] == (6, False, False), "stopped short without an end token"
    assert found["farm/names", 1] == (17, True, False), "it ended with the last token that it had"
    assert all(row["tokens"] == len(row["completion_ids"]) and row["prompt_tokens"] == len(row["prompt_ids"]) for row in rows)


def test_equal_answers_are_executed_once_and_counted(asked: Collect, pool: Pool, task: SqlTask, tmp_path: Path) -> None:
    from prefkit.verify.scheduler import Scheduler

    # Six answers: two texts of one query, the same again, and another.
    answers = {"shop/names": ["SELECT name FROM item", "```sql\nSELECT name FROM item\n```"] * 2 + ["SELECT id FROM item"] * 2}
    request = [request for request in first_turn(task, task.load("train")) if request.name == "shop/names"]
    with Scheduler(workers=1) as fresh:
        rows, verdicts = collect(
            "rollouts-0", request, replace(SAMPLING, k=6), task, pool(answers), fresh, tmp_path / "partial.jsonl", lambda *_: None
        )
        counts = fresh.counts
    counted = figures(rows, verdicts)
    assert (counted["answers"], counted["unique"], counted["duplicates"]) == (6, 3, 4)
    assert counts["checks"] - counts["cached"] == counted["answers"] - counted["duplicates"] == 2
    assert [verdict["score"] for verdict in verdicts] == [1, 1, 1, 1, 0, 0]


def without_timings(result: tuple[list[Row], list[Row]]) -> tuple[list[Row], list[Row]]:
    from prefkit.hashing import MEASURED

    rows, verdicts = result
    return rows, [{key: value for key, value in verdict.items() if key not in MEASURED} for verdict in verdicts]
