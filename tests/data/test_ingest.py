"""A log goes in; rows, verdicts and a report come out, and nothing that nobody should keep."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prefkit.data.column_map import ColumnMap, read_columns
from prefkit.data.history import Ingested
from prefkit.data.ingest import Log, default_folder, ingest
from prefkit.data.ingest_lines import LONGEST_LINE, LONGEST_TEXT, Entry, Fault, read_log
from prefkit.data.ingest_rows import FILES
from prefkit.errors import DataError
from prefkit.progress import quiet
from prefkit.tasks.base import Example
from prefkit.tasks.sql import SqlTask
from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]
SCHEMA = "CREATE TABLE people (name TEXT, age INTEGER, city TEXT);"
ROWS = (
    "INSERT INTO people VALUES ('Ann', 31, 'Leeds'), ('Bob', 52, 'York'), ('Cid', 40, 'Leeds');",
    "INSERT INTO people VALUES ('Dora', 45, 'York'), ('Eve', 28, 'Leeds'), ('Fay', 67, 'Hull'), ('Gus', 28, 'Hull');",
)
QUESTIONS = [
    ("train", "count", "How many people are there?", "SELECT COUNT(*) FROM people"),
    ("train", "leeds", "Who lives in Leeds?", "SELECT name FROM people WHERE city = 'Leeds'"),
    ("validation", "mean", "What is the mean age of everybody?", "SELECT AVG(age) FROM people"),
    ("test", "old", "Which persons have passed the age of 41?", "SELECT name FROM people WHERE age > 41"),
]
YOUNGEST = {
    "question": "Youngest in each city?",
    "answer": "SELECT city, MAX(age) FROM people GROUP BY city",
    "correction": "SELECT city, MIN(age) FROM people GROUP BY city",
}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> SqlTask:
    """Four questions over one database in two data instances."""
    folder = tmp_path_factory.mktemp("people")
    files = []
    for number, rows in enumerate(ROWS):
        files.append(folder / f"people-{number}.sqlite")
        with sqlite3.connect(files[-1]) as connection:
            connection.executescript(SCHEMA + rows)
        connection.close()
    examples = [Example(id, split, "people", 1, question, gold) for split, id, question, gold in QUESTIONS]
    return SqlTask("people", {"people": files}, examples)


Ingest = Callable[..., tuple[Row, Path]]


@pytest.fixture
def ingested(people: SqlTask, scheduler: Scheduler, tmp_path: Path) -> Ingest:
    """Ingest lines (objects, or bytes as they are): (report, folder)."""

    def run(*lines: Row | bytes, columns: ColumnMap | None = None) -> tuple[Row, Path]:
        log, folder = tmp_path / "log.jsonl", tmp_path / "out"
        log.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines) + b"\n")
        return ingest(Log.at(log), people, columns or ColumnMap(), folder, scheduler, quiet()), folder

    return run


def rows(folder: Path, name: str) -> list[Row]:
    return parquet.read_table(folder / f"{name}.parquet").to_pylist()


def reasons(report: Row) -> dict[int, str]:
    return {line["line"]: line["reason"] for line in report["refused"]["lines"]}


# A thousand lines


def broken_lines() -> Iterator[tuple[str, bytes]]:
    """A hundred broken lines of ten kinds: (reason, line)."""
    for number in range(10):
        good = {"question": f"q{number}", "answer": "SELECT 1"}
        yield "not JSON", [b"{", b'{"question": "q"', b"nonsense", b"'q'", b'{"a": 1' + b"0" * 5000 + b"}"][number % 5]
        yield "not an object", [b"[]", b"1", b'"text"', b"null", b"[1, 2]"][number % 5]
        yield "not UTF-8", b'{"question": "\xff\xfe' + bytes([65 + number]) + b'", "answer": "x"}'
        yield "no question", json.dumps({"answer": "SELECT 1", **({"question": "  "} if number % 2 else {})}).encode()
        yield "no answer", json.dumps({"question": "q", **({"answer": ""} if number % 2 else {})}).encode()
        yield "wrong type", json.dumps({**good, ["question", "answer", "correction", "error", "retry"][number % 5]: number + 1}).encode()
        yield "text too long", json.dumps({**good, "answer": "x" * (LONGEST_TEXT + 1 + number)}).encode()
        yield "unknown thumbs", json.dumps({**good, "thumbs": ["maybe", 3, 0.5, {}, "sideways"][number % 5]}).encode()
        yield "broken characters", b'{"question": "q \\ud800", "answer": "x"}'
        yield "unknown database", json.dumps({**good, "database": f"other{number}"}).encode()


def good_lines() -> Iterator[bytes]:
    """Nine hundred lines that can be read, whatever can be learned from them."""
    for number in range(900):
        thumbs = {"thumbs": "up" if number % 3 else "down"}
        age = number % 60
        yield json.dumps(
            [
                {"question": "How many people are there?", "answer": f"SELECT COUNT(*) + {number % 9} FROM people", **thumbs},
                {
                    "question": f"Count of those aged {age}+?",
                    "answer": f"SELECT COUNT(*) FROM people WHERE age > {age}",
                    "correction": f"SELECT COUNT(age) FROM people WHERE age >= {age}",
                },
                {"question": f"Something else {number}?", "answer": "I do not know.", **thumbs},
                {"question": "Which persons have passed the age of 41?", "answer": "SELECT name FROM people", **thumbs},
                {"question": f"Delete number {number}", "answer": "SELECT 1", "correction": f"DELETE FROM people WHERE age = {number}"},
                {
                    "question": "Who lives in Leeds?",
                    "answer": "SELECT nam FROM people",
                    "retry": "SELECT name FROM people WHERE city = 'Leeds'",
                },
            ][number % 6]
        ).encode()


def test_a_thousand_lines_with_a_hundred_broken_ones_of_ten_kinds(ingested: Ingest) -> None:
    lines = [*((reason, line) for reason, line in broken_lines()), *((None, line) for line in good_lines())]
    random.Random(1).shuffle(lines)
    report, folder = ingested(*(line for _, line in lines))

    counts = report["counts"]
    assert (counts["lines"], counts["handled"], counts["broken"], counts["empty"]) == (1000, 900, 100, 0)
    expected = {number: reason for number, (reason, _) in enumerate(lines, 1) if reason}
    assert {line["line"]: line["reason"] for line in report["broken"]["lines"]} == expected
    assert report["broken"]["reasons"] == Counter(expected.values()) and len(report["broken"]["reasons"]) == 10

    assert counts["used"] + counts["refused"] == counts["handled"]
    assert sum(report["refused"]["reasons"].values()) == counts["refused"] == len(report["refused"]["lines"])
    assert report["refused"]["reasons"]["held out: it is a test question"] == 150
    assert report["refused"]["reasons"]["nothing to verify it by"] == 150
    assert report["refused"]["reasons"]["the correction is not allowed: not a query: DELETE"] == 150
    assert "Which persons have passed" not in json.dumps(rows(folder, "rollouts"))
    assert {name: len(rows(folder, name)) for name in ("examples", "pairs", "trajectories", "rollouts", "verdicts")} == report["made"]
    assert report["made"]["examples"] > 5
    text = (folder / "report.md").read_text("utf-8")
    assert "1,000 lines: 900 handled, 100 broken" in text and "| unknown thumbs | 10 |" in text


# What is made


def test_a_correction_becomes_an_example_a_pair_and_a_trajectory(ingested: Ingest, people: SqlTask) -> None:
    report, folder = ingested({**YOUNGEST, "error": "should be the youngest", "thumbs": "down"})
    assert report["counts"] == {"lines": 1, "empty": 0, "broken": 0, "handled": 1, "refused": 0, "used": 1}

    (example,) = rows(folder, "examples")
    assert (example["question"], example["gold"], example["split"]) == (YOUNGEST["question"], [YOUNGEST["correction"]], "ingested")
    rollouts = {row["id"]: row for row in rows(folder, "rollouts")}
    verdicts = {row["id"]: row for row in rows(folder, "verdicts")}
    assert list(rollouts) == list(verdicts) and len(rollouts) == 2
    assert {row["model"] for row in rollouts.values()} == {"history"}
    assert rollouts[example["rollout"]]["completion"] == YOUNGEST["correction"]
    assert verdicts[example["rollout"]]["status"] == "PASS" and verdicts[example["rollout"]]["key"] == example["verdict"]

    (pair,) = rows(folder, "pairs")
    assert pair["chosen"] == [{"role": "assistant", "content": YOUNGEST["correction"]}]
    assert pair["rejected"] == [{"role": "assistant", "content": YOUNGEST["answer"]}]
    assert (pair["source"], pair["rejected_source"], pair["rejected_status"]) == ("history", "history", "WRONG")
    assert pair["example_id"] == example["id"]
    for side in ("chosen", "rejected"):
        assert rollouts[pair[f"{side}_rollout"]]["completion"] == pair[side][0]["content"]
        assert verdicts[pair[f"{side}_rollout"]]["key"] == pair[f"{side}_verdict"]
    assert pair["prompt"] == people.prompt_for("people", YOUNGEST["question"])

    (trajectory,) = rows(folder, "trajectories")
    first, second = trajectory["turns"]
    assert (first["content"], first["status"], first["train"], first["feedback"]) == (
        YOUNGEST["answer"], "WRONG", False, "should be the youngest",
    )  # fmt: skip
    assert (second["content"], second["status"], second["train"]) == (YOUNGEST["correction"], "PASS", True)
    assert trajectory["end"] == "reference"
    assert trajectory["prompt"][-1]["content"].startswith("should be the youngest")


def test_a_retry_is_judged_by_the_tasks_reference(ingested: Ingest) -> None:
    wrong, right, other = "SELECT nam FROM people", "SELECT p.name FROM people p WHERE p.city = 'Leeds'", "SELECT name FROM people"
    ask = {"question": "who lives in leeds"}
    report, folder = ingested(
        {**ask, "answer": wrong, "retry": right},
        {**ask, "id": 7, "answer": f"Sure!\n```sql\n{other};\n```"},
        {**ask, "id": 8, "retry_of": 7, "answer": right},
        {**ask, "id": 9, "retry_of": 7, "answer": wrong},
        {**ask, "retry_of": "nobody", "answer": other},
    )
    assert report["made"]["examples"] == 0, "the task has the question already"
    pairs = rows(folder, "pairs")
    assert [(row["chosen"][0]["content"], row["rejected"][0]["content"]) for row in pairs] == [(right, wrong), (right, other)]
    assert {row["example_id"] for row in pairs} == {"leeds"}
    assert [(row["end"], row["turns"][1]["train"]) for row in rows(folder, "trajectories")] == [
        ("repaired", True), ("repaired", True), ("open", False),
    ]  # fmt: skip
    crashed = rows(folder, "trajectories")[0]["turns"][0]
    assert crashed["status"] == "CRASH" and "no such column: nam" in crashed["feedback"], "without a logged error, the verifier's words"
    assert reasons(report) == {
        2: "judged, but there is no correction and no retry to learn from",
        5: "retry_of names no other line with this question",
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"correction": "SELECT city, MIN(age) FROM nobody"}, "the correction fails: no such table: nobody"),
        ({"correction": "SELECT name FROM people WHERE age < 0"}, "the correction returns no rows"),
        ({"correction": "SELECT name FROM people WHERE age < 30"}, "the correction returns no rows on data instance 1"),
        ({"correction": "SELECT name FROM people ORDER BY city LIMIT 1"}, "the correction is ambiguous: LIMIT cuts through ties"),
        ({"correction": "SELECT name FROM people WHERE age > random()"}, "the correction uses random()"),
        ({"correction": "UPDATE people SET age = 1 RETURNING name"}, "the correction is not allowed: not a query: UPDATE"),
        ({"correction": "That is wrong!"}, "the correction holds no query"),
        ({"correction": "SELECT name FROM people WHERE age > 30"}, "held out: the correction has the query form of a test question"),
        ({"correction": None}, "nothing to verify it by"),
        ({"correction": None, "thumbs": "up"}, "nothing to verify it by"),
        ({"correction": None, "retry": "SELECT name FROM people"}, "nothing to verify it by"),
        ({"question": "The mean age of everybody is what?"}, "held out: nearly the words of a validation question"),
        ({"question": "what is the MEAN age of everybody"}, "held out: it is a validation question"),
        ({"id": "old"}, "held out: its id is that of a test question"),
        ({"question": "Who lives in Leeds?"}, "the correction disagrees with the task's reference"),
        ({"question": "How many people are there?", "answer": "SELECT COUNT(1) FROM people"}, "the answer was right already"),
        (
            {"correction": "SELECT name FROM people WHERE name = 'ann@example.org'"},
            "the query in its correction held something that was redacted",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_the_verdicts_do_not_bear_out_is_refused_with_its_reason(line: Row, reason: str, ingested: Ingest) -> None:
    report, _ = ingested({**YOUNGEST, **line})
    assert reasons(report) == {1: reason}
    assert report["made"]["examples"] == report["made"]["pairs"] == report["made"]["trajectories"] == 0


def test_an_answer_that_the_correction_only_words_differently_is_no_pair(ingested: Ingest) -> None:
    same = "SELECT p.city, MIN(p.age) FROM people p GROUP BY 1"
    report, folder = ingested({**YOUNGEST, "answer": same}, {**YOUNGEST, "answer": "No idea."}, YOUNGEST, YOUNGEST)
    assert report["made"] == {"examples": 1, "rollouts": 4, "verdicts": 4, "pairs": 1, "trajectories": 1}
    assert reasons(report) == {
        2: "the answer holds no query to put the mended one over",
        4: "repeated: an earlier line says the same",
    }
    (pair,) = rows(folder, "pairs")
    assert pair["rejected"][0]["content"] == YOUNGEST["answer"]


def test_corrections_that_contradict_each_other_are_used_nowhere(ingested: Ingest) -> None:
    other = "SELECT city, MAX(age) FROM people GROUP BY city"
    report, folder = ingested(YOUNGEST, {**YOUNGEST, "answer": "SELECT 1", "correction": other}, {**YOUNGEST, "correction": "SELECT nope"})
    assert report["made"]["examples"] == report["made"]["pairs"] == 0
    assert reasons(report)[1] == reasons(report)[2] == "corrections of the same question contradict each other"
    assert reasons(report)[3] == "the correction fails: no such column: nope"
    assert report["contradictions"]["corrections"] == {
        "count": 1,
        "cases": [
            {
                "question": YOUNGEST["question"],
                "corrections": [{"correction": YOUNGEST["correction"], "line": 1}, {"correction": other, "line": 2}],
            }
        ],
    }
    assert "1 questions have corrections that return different rows" in (folder / "report.md").read_text("utf-8")


def test_thumbs_are_compared_with_verdicts_and_with_each_other(ingested: Ingest) -> None:
    def vote(answer: str, thumbs: Any) -> Row:
        return {"question": "How many people are there?", "answer": answer, "thumbs": thumbs}

    right, wrong = "SELECT COUNT(*) FROM people", "SELECT 2"
    report, folder = ingested(
        *[vote(right, "up")] * 4, vote(right, "👎"), *[vote(wrong, -1)] * 2, vote(wrong, True), vote(wrong, None),
        {"question": "Which persons have passed the age of 41?", "answer": "SELECT name FROM people", "thumbs": "down"},
        {**YOUNGEST, "thumbs": "down"},
    )  # fmt: skip
    found = report["agreement"]["task"]
    assert {name: found[name] for name in ("up_pass", "up_fail", "down_pass", "down_fail", "n")} == {
        "up_pass": 4, "up_fail": 1, "down_pass": 1, "down_fail": 3, "n": 9,
    }  # fmt: skip
    # Seen 7/9; chance (5/9)(5/9) + (4/9)(4/9) = 41/81; kappa = (63 - 41) / (81 - 41).
    assert found["kappa"]["value"] == pytest.approx(22 / 40)
    assert report["agreement"]["corrections"]["down_fail"] == 1, "judged by the same user's correction: counted apart"
    thumbs = report["contradictions"]["thumbs"]
    assert thumbs["count"] == 2
    assert [(case["answer"], case["up"], case["down"]) for case in thumbs["cases"]] == [(right, 4, 1), (wrong, 1, 2)]
    assert "Thumb and verdict agree on 77.8% of 9 answers" in (folder / "report.md").read_text("utf-8")


# What must not be kept


SECRETS = {
    "email": "mary.poppins@example.org",
    "card": "4111 1111 1111 1111",
    "iban": "DE89 3704 0044 0532 0130 00",
    "phone": "+44 20 7946 0958",
    "key": "sk-abcdEFGH1234567890abcd",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "pem": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END PRIVATE KEY-----",
    "password": "password: hunter2hunter2",
}


@given(
    places=st.lists(
        st.tuples(
            st.sampled_from(
                ["question", "answer", "correction", "retry", "error", "id", "retry_of", "thumbs", "extra", "database", "broken"]
            ),
            st.sampled_from(sorted(SECRETS)),
            st.sampled_from(["{}", "Who is {}?", "SELECT '{}'", "```sql\nSELECT name FROM people WHERE name = '{}'\n```", "x {} y"]),
        ),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_secret_is_anywhere_in_the_folder(places: list[tuple[str, str, str]], ingested: Ingest) -> None:
    lines: list[Row | bytes] = [YOUNGEST]
    for field, kind, form in places:
        text = form.format(SECRETS[kind])
        if field == "broken":
            lines.append(b"{" + json.dumps(text).encode())
        elif field == "extra":
            lines.append({**YOUNGEST, text: text})
        else:
            lines.append({**YOUNGEST, field: text})
    _, folder = ingested(*lines)
    found = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    found += [json.dumps(rows(folder, name.removesuffix(".parquet")), ensure_ascii=False).encode() for name in FILES]
    for secret in SECRETS.values():
        for spelling in (secret, secret.replace("\n", "\\n"), secret.removeprefix("password: ")):
            assert not [content[:80] for content in found if spelling.encode() in content]


def test_finds_are_counted_by_kind(ingested: Ingest) -> None:
    report, _ = ingested({**YOUNGEST, "question": f"Who is {SECRETS['email']}, {SECRETS['email']}?", "error": SECRETS["card"]})
    assert report["redacted"] == {"card": 1, "email": 2}


def test_a_held_out_question_is_known_before_it_is_redacted(scheduler: Scheduler, people: SqlTask, tmp_path: Path) -> None:
    question = "Who is mary.poppins@example.org?"
    asked = SqlTask("people", people.databases, [Example("mary", "test", "people", 1, question, "SELECT MIN(name) FROM people")])
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({**YOUNGEST, "question": question}))
    report = ingest(Log.at(log), asked, ColumnMap(), tmp_path / "out", scheduler, quiet())
    assert report["refused"]["reasons"] == {"held out: it is a test question": 1}


# Hostile lines


HOSTILE = [
    b"[" * 100_000,
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    b'{"question": "q", "answer": "a", "id": ' + b"9" * 10_000 + b"}",
    b'{"question": "q", "answer": "a", "thumbs": 1e400}',
    b'{"question": "q", "answer": "a", "thumbs": NaN}',
    b'{"question": "\\udc80", "answer": "a"}',
    b"\x00" * 100,
    b'{"question": "' + b"x" * LONGEST_LINE + b'", "answer": "a"}',
    b'{"question": "q", "answer": "a", "id": [[[[]]]]}',
    b'{"question": {"question": "q"}, "answer": "a"}',
]


def test_hostile_lines_are_reported_and_the_others_kept(ingested: Ingest) -> None:
    report, folder = ingested(YOUNGEST, *HOSTILE, {**YOUNGEST, "question": "\x00 \x1b[2J | <script> \u202e"})
    assert report["counts"]["broken"] == len(HOSTILE) and report["counts"]["handled"] == 2
    assert [line["line"] for line in report["broken"]["lines"]] == list(range(2, 2 + len(HOSTILE)))
    assert report["broken"]["lines"][7] == {"line": 9, "reason": "line too long", "detail": f"more than {LONGEST_LINE} bytes"}
    assert "\x1b" not in (folder / "report.md").read_text("utf-8")


@given(lines=st.lists(st.binary(max_size=60) | st.sampled_from(HOSTILE[2:7]), max_size=5), data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_entries_faults_or_nothing(lines: list[bytes], data: st.DataObject, tmp_path: Path) -> None:
    json_value = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    )
    fields = st.dictionaries(st.sampled_from(["question", "answer", "thumbs", "id", "correction", "retry_of"]), json_value)
    objects = data.draw(st.lists(fields, max_size=3))
    file = tmp_path / "any.jsonl"
    file.write_bytes(b"\n".join([*(line.replace(b"\n", b" ") for line in lines), *(json.dumps(one).encode() for one in objects)]))
    for found in read_log(file, ColumnMap()):
        assert found is None or isinstance(found, Entry | Fault)


# The column map


def written(folder: Path, text: str) -> Path:
    path = folder / "map.yaml"
    path.write_text(text)
    return path


def test_a_column_map_finds_nested_fields_and_names_thumbs(ingested: Ingest, tmp_path: Path) -> None:
    lines = ["question: request.text", "answer: response.choices.0.content", "correction: fixed", "thumbs: stars", "up: [4, 5, Fine]"]
    columns = read_columns(written(tmp_path, "\n".join([*lines, "down: [1, 2]\n"])))
    line = {"request": {"text": "How many people are there?"}, "response": {"choices": [{"content": "SELECT COUNT(*) FROM people"}]}}
    report, _ = ingested(
        {**line, "stars": 5, "user": "u1"}, {**line, "stars": 1}, {**line, "stars": "fine"}, {**line, "stars": 3}, line,
        {"question": "q", "answer": "a"}, columns=columns,
    )  # fmt: skip
    assert (report["agreement"]["task"]["up_pass"], report["agreement"]["task"]["down_pass"]) == (2, 1)
    assert report["broken"]["reasons"] == {"unknown thumbs": 1, "no question": 1}
    assert report["unused_fields"] == ["user"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("request.text: question\n", "map.yaml:1: a line is `ours: theirs`; write it the other way round: question: request.text"),
        ("answer: a\nquestoin: b\n", "map.yaml:2: unknown field questoin; did you mean question"),
        ("question: [a]\n", "map.yaml:1: expected the name of your field"),
        ("up: 5\n", "map.yaml:1: expected a list of values of thumbs"),
        ("- question\n", "map.yaml:1: a column map is a list of `ours: theirs` lines"),
        ("question: a\nquestion: b\n", "map.yaml:2: question is given twice"),
        ("question: 'a\n", "not YAML"),
    ],
)
def test_a_column_map_with_a_mistake_is_refused_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_columns(written(tmp_path, text))
    assert message in str(caught.value)


# The folder


def test_the_same_log_gives_the_same_rows(ingested: Ingest) -> None:
    lines = [YOUNGEST, *({**YOUNGEST, "question": f"{YOUNGEST['question']} {number}"} for number in range(20))]
    first, folder = ingested(*lines)
    contents = {name: rows(folder, name) for name in ("examples", "pairs", "trajectories", "rollouts")}
    again, _ = ingested(*lines)
    assert {name: rows(folder, name) for name in contents} == contents
    assert sorted(path.name for path in folder.iterdir() if path.name != ".lock") == sorted([*FILES, "report.json", "report.md"])
    measured = {"files"}
    assert {key: first[key] for key in first.keys() - measured} == {key: again[key] for key in again.keys() - measured}


def test_a_log_of_many_pages_is_read_whole(ingested: Ingest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prefkit.data.ingest_store.PAGE", 7)
    monkeypatch.setattr("prefkit.data.ingest_rows.BATCH", 5)
    monkeypatch.setattr("prefkit.data.ingest_judge.BATCH", 5)
    many = [{**YOUNGEST, "question": f"Is number {number} there?", "answer": f"SELECT {number} FROM people"} for number in range(35)]
    held = [{**YOUNGEST, "question": f"what is the mean age of everybody {number}"} for number in range(9)]
    report, folder = ingested(*many, *held)
    assert {name: report["made"][name] for name in ("examples", "rollouts", "pairs")} == {"examples": 35, "rollouts": 70, "pairs": 35}
    assert [row["question"] for row in rows(folder, "examples")] == [line["question"] for line in many]
    assert report["refused"]["reasons"] == {"held out: nearly the words of a validation question": 9}


def test_an_interrupted_ingest_leaves_nothing_that_trains(ingested: Ingest, people: SqlTask, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefkit.data import ingest as module

    _, folder = ingested(YOUNGEST)
    Ingested.read(folder)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "decide", killed)
    with pytest.raises(KeyboardInterrupt):
        ingested({**YOUNGEST, "question": "another"})
    (example,) = Ingested.read(folder).rows("examples")
    assert example["question"] == YOUNGEST["question"], "before rows are written, the folder is as it was"
    monkeypatch.undo()
    monkeypatch.setattr(module.ingest_report, "markdown", killed)
    with pytest.raises(KeyboardInterrupt):
        ingested(YOUNGEST)
    with pytest.raises(DataError, match="no ingested folder"):
        Ingested.read(folder)
    monkeypatch.undo()
    ingested(YOUNGEST)
    assert len(Ingested.read(folder).added_to(people).load("ingested")) == 1


def test_a_changed_file_is_refused(ingested: Ingest, people: SqlTask) -> None:
    _, folder = ingested(YOUNGEST)
    parquet.write_table(parquet.read_table(folder / "pairs.parquet").slice(0, 0), folder / "pairs.parquet")
    with pytest.raises(DataError, match=r"pairs\.parquet is not as `prefkit ingest` wrote it"):
        Ingested.read(folder)


def test_a_task_that_holds_out_what_was_ingested_refuses_it(ingested: Ingest, people: SqlTask) -> None:
    _, folder = ingested(YOUNGEST, {"question": "Who lives in Leeds?", "answer": "SELECT 1", "correction": QUESTIONS[1][3]})
    every = [example for split in people.splits for example in people.load(split)]
    tested = Example("new", "test", "people", 1, "youngest in EACH city", "SELECT 1")
    with pytest.raises(DataError, match="has 1 questions that this task holds out"):
        Ingested.read(folder).added_to(SqlTask("people", people.databases, [*every, tested]))
    form = Example("new", "test", "people", 1, "Something else", "SELECT city, MIN(age)  FROM people GROUP BY city")
    with pytest.raises(DataError, match="holds out"):
        Ingested.read(folder).added_to(SqlTask("people", people.databases, [*every, form]))
    without = [example for example in every if example.id != "leeds"]
    with pytest.raises(DataError, match=r"rows for 1 questions that are not in training here \(first: leeds\)"):
        Ingested.read(folder).added_to(SqlTask("people", people.databases, without))
    with pytest.raises(DataError, match="other rows of the database people"):
        Ingested.read(folder).added_to(SqlTask("people", {"people": people.databases["people"][:1]}, every))


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "there is no such file"), (b"", "is empty"), (b"\n\n", "has empty lines only"), (b"{}\n[]\n", "not one of the first 2 lines")],
)
def test_a_file_that_is_no_log_is_a_message(
    content: bytes | None, message: str, people: SqlTask, scheduler: Scheduler, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    if content is not None:
        log.write_bytes(content)
    with pytest.raises(DataError, match=message):
        ingest(Log.at(log), people, ColumnMap(), tmp_path / "out", scheduler, quiet())


def test_a_folder_with_other_things_is_left_alone(ingested: Ingest, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match=r"holds other things \(thesis\.txt\)"):
        ingested(YOUNGEST)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_the_default_folder_is_one_for_each_log_and_map(people: SqlTask, tmp_path: Path) -> None:
    log = tmp_path / "may.jsonl"
    log.write_text("{}\n")
    first = default_folder(Log.at(log), ColumnMap(), people)
    assert first.parent == Path("ingested") and first.name.startswith("may-")
    assert default_folder(Log.at(log), read_columns(written(tmp_path, "question: q\n")), people) != first
