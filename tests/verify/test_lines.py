"""`prefkit verify FILE.jsonl`: every line gets its verdict, in order."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.errors import DataError
from prefkit.verify.lines import verdicts_for_lines

SCHEMA = "CREATE TABLE t(x INTEGER, y TEXT); INSERT INTO t VALUES (1, 'a'), (2, 'b');"
GOOD = {"verifier": "sql", "schema": SCHEMA, "gold": "SELECT x FROM t", "answer": "SELECT x FROM t"}

ENDLESS = "WITH RECURSIVE r(x) AS (SELECT zeroblob(100000) UNION ALL SELECT x FROM r) INSERT INTO t SELECT x FROM r"

Judge = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Write lines to a file (dicts as JSON, bytes as they are) and return their verdicts."""

    def judge(*lines: dict[str, Any] | bytes, **options: Any) -> list[dict[str, Any]]:
        path = tmp_path / "lines.jsonl"
        path.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
        return list(verdicts_for_lines(path, workers=1, **options))

    return judge


def test_statuses_in_input_order(judge: Judge) -> None:
    verdicts = judge(
        GOOD | {"id": "first"},
        b"not json",
        GOOD | {"id": 7, "answer": "SELECT y FROM t"},
        b"",
        GOOD | {"gold": ["SELECT y FROM t", "SELECT x FROM t"]},
        {"verifier": "perl", "answer": "x", "tests": []},
        GOOD | {"gold": "SELECT broken"},
        GOOD | {"id": None, "answer": "DROP TABLE t"},
    )
    assert [(verdict["id"], verdict["status"], verdict["score"]) for verdict in verdicts] == [
        ("first", "PASS", 1.0),
        ("2", "REFUSED", None),
        ("7", "WRONG", 0.0),
        ("5", "PASS", 1.0),
        ("6", "REFUSED", None),
        ("7", "UNVERIFIABLE", None),
        ("8", "POLICY", 0.0),
    ]
    assert verdicts[1]["reason"] == "line 2: not JSON: Expecting value at column 1"
    assert verdicts[4]["reason"] == 'line 6: unknown verifier "perl"; there is: sql, python, program, tool_calls, math, rules, judge'
    json.dumps(verdicts)


def without(line: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in names}


REFUSED: dict[str, tuple[dict[str, Any] | bytes, str]] = {
    "list": (b"[1]", "expected a JSON object, one a line, not [1]"),
    "a line break in the middle": (json.dumps(GOOD, indent=1).encode().split(b"\n")[0], "not JSON: "),
    "id is a list": (GOOD | {"id": [1]}, '"id" must be text or a number, not [1]'),
    "no verifier": ({"answer": "x"}, 'the line names no "verifier"; there is: sql, '),
    "verifier is a list": (GOOD | {"verifier": ["sql"]}, 'unknown verifier ["sql"]; there is: sql, '),
    "verifier in capitals": (GOOD | {"verifier": "SQL"}, 'unknown verifier "SQL"; did you mean "sql"? there is: '),
    "no answer": (without(GOOD, "answer"), '"answer" must be text; it is missing'),
    "answer is a number": (GOOD | {"answer": 3}, '"answer" must be text, not 3'),
    "answers": (without(GOOD, "answer") | {"answers": ["x"]}, 'unknown field "answers"; did you mean "answer"?'),
    "no gold": (without(GOOD, "gold"), '"gold" must be text or a list of texts, and not empty; it is missing'),
    "golds": (without(GOOD, "gold") | {"golds": ["x"]}, 'unknown field "golds"; did you mean "gold"?'),
    "empty gold": (GOOD | {"gold": []}, '"gold" must be text or a list of texts, and not empty, not []'),
    "blank gold": (GOOD | {"gold": " "}, '"gold" must be text or a list of texts, and not empty; it is " "'),
    "gold of numbers": (GOOD | {"gold": ["x", 1]}, '"gold" must be text or a list of texts, and not empty; item 2 is 1'),
    "no database": (without(GOOD, "schema"), 'expected either "schema"'),
    "both": (GOOD | {"database": "x.sqlite"}, 'expected either "schema"'),
    "timeout text": (GOOD | {"timeout": "1"}, '"timeout" must be a number of seconds above 0 and up to 600, not "1"'),
    "timeout true": (GOOD | {"timeout": True}, '"timeout" must be a number of seconds above 0 and up to 600, not true'),
    "timeout zero": (GOOD | {"timeout": 0}, '"timeout" must be a number'),
    "timeout NaN": (json.dumps(GOOD).encode()[:-1] + b', "timeout": NaN}', '"timeout" must be a number'),
    "timeout huge": (GOOD | {"timeout": 1e9}, '"timeout" must be a number'),
    "timout": (GOOD | {"timout": 1}, 'unknown field "timout"; did you mean "timeout"?'),
    "colums": (GOOD | {"colums": "any_order"}, 'unknown field "colums"; did you mean "columns"?'),
    "columns": (GOOD | {"columns": "any"}, '"columns" is one of in_order, any_order'),
    "broken UTF-8": (b'{"answer": "\xff"}', "not UTF-8 at byte 13"),
    "deep": (b"[" * 100_000, ""),
    "huge number": (b'{"id": ' + b"9" * 10_000 + b"}", ""),
}


@pytest.mark.parametrize(("line", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_broken_lines_say_what_was_expected(judge: Judge, line: dict[str, Any] | bytes, reason: str) -> None:
    broken, good = judge(line, GOOD)
    assert (broken["status"], broken["score"]) == ("REFUSED", None)
    assert broken["reason"].startswith("line 1: ") and reason in broken["reason"]
    assert good["status"] == "PASS"


CASES = {"verifier": "python", "answer": "def f(x): return x", "entry": "f", "cases": [[[1], 1]]}
TESTS = {"verifier": "python", "answer": "def f(x): return x", "tests": "assert f(1) == 1"}
PROGRAM = {"verifier": "program", "language": "bash", "answer": "cat", "io": [["a", "a"]]}
CALLS = {"verifier": "tool_calls", "tools": [{"name": "w"}], "accepted": [[{"name": "w", "arguments": {}}]], "answer": "{}"}
STATE = {"verifier": "tool_calls", "simulator": "orders", "state": {}, "end": {}, "answer": "{}"}
MATH = {"verifier": "math", "gold": "1", "answer": "1"}
RULES = {"verifier": "rules", "rules": "rules.yaml", "answer": "{}"}
JUDGE = {"verifier": "judge", "prompt": "p", "answer": "a", "endpoint": {"url": "https://judge.example/v1", "model": "m"}}
OF_EACH_KIND: dict[str, tuple[dict[str, Any], str]] = {
    "cases without entry": (without(CASES, "entry"), '"cases" need an "entry", the name of the function that is called'),
    "entry with brackets": (
        CASES | {"entry": "f()"},
        '"entry" must be the name of a function (f, Class.method, package.module:f), not "f()"',
    ),
    "no cases": (without(CASES, "cases"), 'expected either "cases" (with "entry") or "tests", found neither'),
    "cases and tests": (CASES | {"tests": "assert 1"}, 'expected either "cases" (with "entry") or "tests", found both'),
    "cases as object": (CASES | {"cases": {"1": 1}}, '"cases" must be a list of up to 10000 cases, not {"1": 1}'),
    "a broken case": (CASES | {"cases": [[[1], 1], [2, 2]]}, "case 2: expected [[arguments…], value] or "),
    "what a broken case is": (CASES | {"cases": [[2, 2]]}, "not [2, 2]"),
    "args of a case": (
        CASES | {"cases": [{"args": 1, "expected": 1}]},
        'case 1: "args" must be a list and "kwargs" an object, not 1 and {}',
    ),
    "tolerence": (CASES | {"tolerence": 0.1}, 'unknown field "tolerence"; did you mean "tolerance"?'),
    "tolerance": (CASES | {"tolerance": {"rel": 0.1}}, 'not {"rel": 0.1}'),
    "tests": (TESTS | {"tests": ["assert f(1) == 1", 4]}, "an object of paths and texts; 4 is no text"),
    "files": (TESTS | {"files": {"a.py": 3}}, "\"files\" must be an object of paths and texts; 'a.py' has 3"),
    "language": (PROGRAM | {"language": "C"}, '"language" must be one of c, javascript, bash, python, not "C"'),
    "lang": (without(PROGRAM, "language") | {"lang": "c"}, '"language" must be one of c, javascript, bash, python; it is missing'),
    "io": (PROGRAM | {"io": [["a", "a"], ["a"]]}, 'pair 2 is ["a"]'),
    "tools": (CALLS | {"tools": {"name": "w"}}, '"tools" must be a list of tools, and not empty, not {"name": "w"}'),
    "accepted": (without(CALLS, "accepted"), '[[{"name": …, "arguments": {…}}]]); it is missing'),
    "ordred": (CALLS | {"ordred": True}, 'unknown field "ordred"; did you mean "ordered"?'),
    "ordered": (CALLS | {"ordered": "no"}, '"ordered" must be true or false, not "no"'),
    "state": (STATE | {"state": 3}, '"state" must be a JSON object, the state at the start, not 3'),
    "math gold": (MATH | {"gold": 1}, '"gold" must be text or a list of texts, and not empty, not 1'),
    "rules": (RULES | {"rules": "rules:\n- id: x"}, '"rules" must be the path of a rules file, not "rules:'),
    "rule": (without(RULES, "rules") | {"rule": "rules.yaml"}, 'unknown field "rule"; did you mean "rules"?'),
    "prompt": (JUDGE | {"prompt": [{"role": "user"}]}, '"prompt" must be text, not [{"role": "user"}]'),
    "rubrik": (JUDGE | {"rubrik": {}}, 'unknown field "rubrik"; did you mean "rubric"?'),
    "rubric": (JUDGE | {"rubric": {"pass": 0.5}}, '"rubric" is an object with "criteria" and "pass_at", not {"pass": 0.5}'),
}


@pytest.mark.parametrize(("line", "reason"), OF_EACH_KIND.values(), ids=OF_EACH_KIND.keys())
def test_broken_lines_of_every_kind_say_what_was_expected_and_what_is_there(judge: Judge, line: dict[str, Any], reason: str) -> None:
    (verdict,) = judge(line, min_isolation="B")  # a machine without tier A reads lines, too
    if "tier" in verdict["reason"]:
        pytest.skip(verdict["reason"])
    assert (verdict["status"], verdict["score"]) == ("REFUSED", None)
    assert verdict["reason"].startswith("line 1: ") and reason in verdict["reason"]


def test_fields_of_the_users_own_are_passed_over(judge: Judge) -> None:
    own = {"level": 3, "source": "shop", "timestamp": "2025-01-01", "note": "x", "want": "PASS", "question": "?", "db_id": "t"}
    assert [verdict["status"] for verdict in judge(GOOD | own, GOOD | {"answers": ["x"], "golds": []})] == ["PASS", "PASS"]


def test_a_byte_order_mark_and_windows_line_ends_are_no_fault(judge: Judge) -> None:
    verdicts = judge(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r", json.dumps(GOOD).encode() + b"\r")
    assert [verdict["status"] for verdict in verdicts] == ["PASS", "PASS"]


def test_schemas_that_fail_are_the_tasks_fault(judge: Judge) -> None:
    scripts = {
        "CREATE TABL t(x)": 'schema fails: near "TABL": syntax error',
        "ATTACH '/tmp/prefkit-x' AS y": "schema fails: not authorized",
        "PRAGMA writable_schema = 1": "schema fails: not authorized",
        "SELECT load_extension('x')": "schema fails: not authorized to use function: load_extension",
        f"CREATE TABLE t(x); {ENDLESS}": "schema fails:",
    }
    verdicts = judge(*[GOOD | {"schema": script} for script in scripts])
    assert {verdict["status"] for verdict in verdicts} == {"UNVERIFIABLE"}
    assert all(verdict["reason"].startswith(reason) for verdict, reason in zip(verdicts, scripts.values(), strict=True)), verdicts
    assert not Path("/tmp/prefkit-x").exists()


def test_several_schemas_are_data_instances(judge: Judge) -> None:
    other = SCHEMA.replace("(2, 'b')", "(2, 'a')")
    line = GOOD | {"gold": "SELECT COUNT(DISTINCT y) FROM t", "answer": "SELECT COUNT(*) FROM t"}
    assert [verdict["reason"] for verdict in judge(line, line | {"schema": [SCHEMA, other]})] == [
        "same rows",
        "wrong rows (data instance 2)",
    ]


def test_databases_beside_the_file(judge: Judge, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.sqlite")
    connection.executescript(SCHEMA)
    connection.close()
    line = {key: value for key, value in GOOD.items() if key != "schema"}
    verdicts = judge(
        line | {"database": "a.sqlite"}, line | {"database": ["a.sqlite", str(tmp_path / "a.sqlite")]}, line | {"database": "b.sqlite"}
    )
    assert [(verdict["status"], verdict["reason"]) for verdict in verdicts] == [
        ("PASS", "same rows"),
        ("PASS", "same rows"),
        ("UNVERIFIABLE", "database not found: b.sqlite"),
    ]


def test_timeouts_of_a_line_and_of_the_file(judge: Judge) -> None:
    slow = GOOD | {"answer": "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 300000) SELECT count(*) FROM r"}
    assert [verdict["status"] for verdict in judge(slow, slow | {"timeout": 3}, timeout_s=0.1)] == ["TIMEOUT", "WRONG"]


def test_isolation_that_is_asked_for_is_not_lowered(judge: Judge) -> None:
    assert judge(GOOD, min_isolation="P")[0]["status"] == "PASS"
    (verdict,) = judge(GOOD, min_isolation="A")
    assert (verdict["status"], verdict["reason"]) == (
        "REFUSED",
        "line 1: the sql verifier runs at tier P, which is less than the A asked for",
    )
    with pytest.raises(DataError, match="min_isolation"):
        judge(GOOD, min_isolation="Z")


def test_a_cache_serves_schemas_too(judge: Judge, tmp_path: Path) -> None:
    assert [judge(GOOD, cache=tmp_path / "c.sqlite")[0]["cached"] for _ in range(2)] == [False, True]


def test_nothing_is_left_behind(judge: Judge, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    judge(GOOD, GOOD | {"schema": "broken"})
    assert not list(folder.iterdir())


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(DataError, match="cannot be read"):
            list(verdicts_for_lines(path))


def test_an_empty_file_has_no_verdicts(judge: Judge) -> None:
    assert judge() == []
    assert judge(b"\n\n  \n") == []


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"")),
            st.just(json.dumps(GOOD).encode()),
            st.recursive(
                st.none() | st.integers() | st.text(max_size=5),
                lambda inner: (
                    st.lists(inner, max_size=3)
                    | st.dictionaries(
                        st.sampled_from(["id", "verifier", "gold", "answer", "schema", "database", "timeout"]), inner, max_size=5
                    )
                ),
            ).map(lambda value: json.dumps(value).encode()),
        ),
        max_size=8,
    )
)
@settings(max_examples=40, deadline=None)
def test_every_line_gets_one_verdict(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines.jsonl"
        path.write_bytes(b"\n".join(lines))
        verdicts = list(verdicts_for_lines(path, workers=1))
    expected = [line for line in lines if line.strip()]
    assert len(verdicts) == len(expected)
    assert [verdict["status"] == "PASS" for verdict in verdicts] == [line == json.dumps(GOOD).encode() for line in expected]
