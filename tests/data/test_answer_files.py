"""Answers from elsewhere: judged like a model's own, and refused line by line where they cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prefkit.data.answer_files import judged, read_answers
from prefkit.data.readiness import answer_figures
from prefkit.errors import DataError

if TYPE_CHECKING:
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask
    from prefkit.verify.scheduler import Scheduler


@pytest.fixture
def known(examples: list[Example]) -> dict[str, Example]:
    return {example.id: example for example in examples}


def test_answers_of_any_number_are_judged_by_execution(
    tmp_path: Path, task: SqlTask, known: dict[str, Example], scheduler: Scheduler
) -> None:
    lines = [
        {"id": "shop/count", "answers": ["SELECT COUNT(*) FROM item", "The answer:\n```sql\nSELECT COUNT(id) FROM item\n```"]},
        {"id": "farm/names", "answers": ["SELECT 1", "", "\ud800 SELECT name FROM item"]},
    ]
    file = tmp_path / "answers.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    answers = read_answers(file, known)
    rows, verdicts = judged("mine", answers, task, known, scheduler)
    assert [row["id"] for row in rows] == [verdict["id"] for verdict in verdicts]
    assert [(row["example_id"], row["k"]) for row in rows] == [
        *(("shop/count", k) for k in range(2)),
        *(("farm/names", k) for k in range(3)),
    ]
    assert [verdict["status"] for verdict in verdicts][:4] == ["PASS", "PASS", "WRONG", "WRONG"]
    assert {row["model"] for row in rows} == {"mine"}
    figures = answer_figures(rows, verdicts, 8)
    assert (figures["answers"], figures["prompts"], figures["k"]) == (5, 2, 2)
    from prefkit.runfolder import RunFolder

    RunFolder(tmp_path / "run").write_rows("rollouts.parquet", rows)
    assert RunFolder(tmp_path / "run").read_rows("rollouts.parquet")[4]["completion"] == "? SELECT name FROM item"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[1]", "expected an object"),
        ('{"id": "shop/count", "answers": [""], "score": 1}', "unknown key 'score'"),
        ('{"id": "shop/coumt", "answers": [""]}', "no question 'shop/coumt'; did you mean shop/count or "),
        ('{"id": 3, "answers": [""]}', "no question 3"),
        ('{"answers": [""]}', "no question None"),
        ('{"id": "shop/count"}', "answers must be a list of one or more texts"),
        ('{"id": "shop/count", "answers": []}', "answers must be a list of one or more texts"),
        ('{"id": "shop/count", "answers": [null]}', "answers must be a list of one or more texts"),
        ('{"id": "shop/names", "answers": ["again"]}', "shop/names has answers on an earlier line"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(line: str, said: str, tmp_path: Path, known: dict[str, Example]) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(f'{{"id": "shop/names", "answers": ["x"]}}\n\n{line}\n')
    with pytest.raises(DataError) as raised:
        read_answers(file, known)
    assert f"{file}, line 3: " in str(raised.value) and said in str(raised.value)


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path, known: dict[str, Example]) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text("\n".join(["{"] * 14))
    with pytest.raises(DataError, match=r"has 14 faults:(.|\n)*line 10: no JSON(.|\n)*and 4 more"):
        read_answers(file, known)


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "has no answers"), (b" \n", "has no answers"), (b"\xff{}", "not UTF-8"), (None, "cannot")]
)
def test_a_file_without_answers_is_refused(content: bytes | None, said: str, tmp_path: Path, known: dict[str, Example]) -> None:
    file = tmp_path / "answers.jsonl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DataError, match=said):
        read_answers(file, known)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_whatever_the_bytes_it_is_a_message(data: bytes, tmp_path: Path, known: dict[str, Example]) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_bytes(b'{"id": "shop/names", "answers": ["x"]}\n' + data)
    try:
        assert "shop/names" in read_answers(file, known)
    except DataError as error:
        assert str(file) in str(error)
