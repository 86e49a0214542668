"""Reading questions: what is accepted, and what each fault says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from prefkit.errors import DataError
from prefkit.tasks.question_files import read_questions

Write = Callable[[str, str], Path]


def test_csv_with_all_columns(written: Write) -> None:
    path = written("q.csv", 'id,question,sql,level,split\na,"Who, where?",SELECT 1;,3,dev\nb,What?,"SELECT 2, 3",,test\n')
    rows, notes = read_questions(path)
    assert [(row.line, row.question, row.golds, row.level, row.split, row.id) for row in rows] == [
        (2, "Who, where?", ("SELECT 1",), 3, "validation", "a"),
        (3, "What?", ("SELECT 2, 3",), None, "test", "b"),
    ]
    assert notes == []


@pytest.mark.parametrize("column", ["sql", "gold", "query", "SQL", " Query "])
def test_the_query_column_has_several_names(written: Write, column: str) -> None:
    assert read_questions(written("q.csv", f"question,{column}\nWho?,SELECT 1\n"))[0][0].golds == ("SELECT 1",)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_and_a_byte_order_mark(written: Write, separator: str) -> None:
    path = written("q.csv", f"\ufeffquestion{separator}sql\nWho, then?{separator}SELECT 1, 2\n")
    rows, _ = read_questions(path)
    assert (rows[0].question, rows[0].golds) == ("Who, then?", ("SELECT 1, 2",))


def test_lines_are_counted_as_an_editor_does(written: Write) -> None:
    path = written("q.csv", 'question,sql\n"A question\nover two lines",SELECT 1\n\nNext?,SELECT 2\n')
    assert [row.line for row in read_questions(path)[0]] == [2, 5]


def test_json_lines_may_accept_several_queries(written: Write) -> None:
    lines = [{"question": "Who?", "gold": ["SELECT 1", "SELECT 2;"], "level": 2}, {"question": "What?", "query": "SELECT 3"}]
    rows, _ = read_questions(written("q.jsonl", "\n\n".join(map(json.dumps, lines))))
    assert [(row.line, row.golds, row.level) for row in rows] == [(1, ("SELECT 1", "SELECT 2"), 2), (3, ("SELECT 3",), None)]


def test_columns_that_are_not_used_are_said(written: Write) -> None:
    _, notes = read_questions(written("q.csv", "question,sql,owner,db\nWho?,SELECT 1,me,x\n"))
    assert notes == ["columns of q.csv that are not used: db, owner"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "q.csv",
            "question,answer\nWho?,SELECT 1\n",
            r"q\.csv, line 1: no column sql \(or gold, or query\); the header reads question, answer",
        ),
        ("q.csv", "ask,sql\nWho?,SELECT 1\n", r"q\.csv, line 1: no column question; the header reads ask, sql"),
        ("q.csv", "question,sql,sql\nWho?,SELECT 1,SELECT 1\n", r"q\.csv, line 1: a column stands twice"),
        ("q.csv", "question,sql\nWho?,SELECT 1\n ,SELECT 2\n", r"q\.csv, line 3: the question is empty"),
        ("q.csv", "question,sql\nWho?,\n", r"q\.csv, line 2: the query is empty"),
        ("q.csv", "question,sql\nWho, then?,SELECT 1, 2\n", r"q\.csv, line 2: 4 fields where the header has 2 \(question, sql\)"),
        ("q.csv", "question,sql\nWho?\n", r"q\.csv, line 2: 1 fields where the header has 2"),
        ("q.csv", 'question,sql\n"Who" then?,SELECT 1\n', r"q\.csv, line 2: broken CSV"),
        ("q.csv", 'question,sql\nWho?,"SELECT 1\n', r"q\.csv, line 2: broken CSV"),
        ("q.csv", "question,sql,level\nWho?,SELECT 1,9\n", r"q\.csv, line 2: the level is '9'; give 1 to 5"),
        ("q.csv", "question,sql,level\nWho?,SELECT 1,easy\n", r"q\.csv, line 2: the level is 'easy'"),
        ("q.csv", "question,sql,split\nWho?,SELECT 1,tset\n", r"q\.csv, line 2: there is no split 'tset'; did you mean test"),
        ("q.csv", "question,sql,gold\nWho?,SELECT 1,SELECT 2\n", r"q\.csv, line 2: more than one query column is filled: sql, gold"),
        ("q.csv", "id,question,sql\na,Who?,SELECT 1\na,What?,SELECT 2\n", r"q\.csv, line 3: the id a stands in line 2 too"),
        ("q.csv", "question,sql\n", r"q\.csv has no questions"),
        ("q.csv", "", r"q\.csv has no questions"),
        ("q.jsonl", '{"question": "Who?", "sql": "SELECT 1"}\n{"question": \n', r"q\.jsonl, line 2: not JSON"),
        ("q.jsonl", "[1, 2]\n", r"q\.jsonl, line 1: a list where an object is expected"),
        ("q.jsonl", '{"sql": "SELECT 1"}\n', r"q\.jsonl, line 1: no question; it has sql"),
        ("q.jsonl", '{"question": "Who?"}\n', r"q\.jsonl, line 1: the query is empty"),
        ("q.jsonl", '{"question": "Who?", "sql": ["SELECT 1", ""]}\n', r"q\.jsonl, line 1: the query in sql is empty or no text"),
        ("q.jsonl", '{"question": "Who?", "sql": 5}\n', r"q\.jsonl, line 1: the query in sql is empty or no text"),
        ("q.jsonl", '{"question": 7, "sql": "SELECT 1"}\n', r"q\.jsonl, line 1: the question is empty"),
        ("q.txt", "question,sql\n", r'q\.txt ends in "\.txt": questions are read from \.csv or \.jsonl'),
    ],
)
def test_a_fault_says_file_line_and_mend(written: Write, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_questions(written(name, text))


def test_all_faults_are_listed_and_the_list_is_cut(written: Write) -> None:
    path = written("q.csv", "question,sql\n" + ",SELECT 1\n" * 12 + "Who?,SELECT 1\nWho, then?,SELECT 1, 2\n")
    with pytest.raises(DataError) as error:
        read_questions(path)
    lines = str(error.value).splitlines()
    assert lines[0].endswith("q.csv has 13 faults:")
    assert len(lines) == 12
    assert lines[-1].strip() == "and 3 more"


def test_a_missing_file_and_one_that_is_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no questions file at"):
        read_questions(tmp_path / "nothing.csv")
    (tmp_path / "q.csv").write_bytes(b"question,sql\nWho?,SELECT 1\nCaf\xe9?,SELECT 1\n")
    with pytest.raises(DataError, match=r"q\.csv, line 3: not UTF-8"):
        read_questions(tmp_path / "q.csv")
