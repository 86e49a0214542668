"""The query in free text: where models put it, and text that holds none."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.verify.extract import extract_sql

Q = "SELECT a, COUNT(*) FROM t WHERE x = 'y;' GROUP BY a ORDER BY 2 DESC LIMIT 3"
CTE = "WITH r AS (\n  SELECT a FROM t\n)\nSELECT * FROM r"

FOUND = {
    "plain": (Q, Q),
    "semicolon": (Q + " ; ", Q),
    "several semicolons": (Q + ";;\n;", Q),
    "lower case": ("select 1", "select 1"),
    "brackets": ("(SELECT 1)", "(SELECT 1)"),
    "values": ("VALUES (1), (2)", "VALUES (1), (2)"),
    "CTE": (CTE, CTE),
    "leading comment": (f"-- count\n/* twice */ {Q}", f"-- count\n/* twice */ {Q}"),
    "comment at the end": (f"{Q}; -- done", Q),
    "comment without a semicolon": (f"{Q} /* done */", Q),
    "blank lines inside": ("SELECT a\n\nFROM t\n\nWHERE b = 1", "SELECT a\n\nFROM t\n\nWHERE b = 1"),
    "fence": (f"```sql\n{Q};\n```", Q),
    "fence without label": (f"```\n{Q}\n```", Q),
    "other label": (f"```SQLite\n{Q}\n```", Q),
    "odd label": (f"```{{.sql .numberLines}}\n{Q}\n```", Q),
    "tildes": (f"~~~sql\n{Q}\n~~~", Q),
    "four backticks": (f"````sql\n{Q}\n````", Q),
    "one line": (f"```sql {Q}```", Q),
    "one line without label": (f"```{Q}```", Q),
    "unclosed": (f"Here:\n```sql\n{Q}", Q),
    "prose around": (f"Sure, here is the query:\n\n```sql\n{Q};\n```\n\nIt selects what you need.", Q),
    "two blocks": (f"```sql\nSELECT 1\n```\nBetter:\n```sql\n{Q}\n```", Q),
    "the last does not parse": (f"```sql\n{Q}\n```\nnot\n```sql\nSELECT FROM WHERE\n```", Q),
    "result block after it": (f"```sql\n{Q}\n```\ngives\n```\na | 3\n```", Q),
    "python before it": (f"```python\nimport sqlite3\n```\n```sql\n{Q}\n```", Q),
    "thought": (f"<think>\n```sql\nSELECT 9\n```\n</think>\n{Q}", Q),
    "thought without its beginning": (f"SELECT 9 would do</think>{Q}", Q),
    "thought in capitals": (f"<THINKING>SELECT 9</THINKING>\n{Q}", Q),
    "prose before": (f"The query is: {Q}", Q),
    "prose before on its own line": (f"Select what you need like this.\n{Q}", Q),
    "prose after a semicolon": (f"{Q}; This counts the rows.", Q),
    "prose after on its own line": (f"{Q}\nThis query counts the rows of each group.", Q),
    "prose after a blank line": (f"{Q}\n\nThis query counts the rows.", Q),
    "SQL:": (f"SQL: {Q}", Q),
    "list item": (f"1. {Q}", Q),
    "bold": (f"**{Q}**", Q),
    "code span": (f"Use `{Q}` for it.", Q),
    "JSON": ('{"sql": "SELECT \\"a\\"\\nFROM t"}', 'SELECT "a"\nFROM t'),
    "JSON in a fence": ('```json\n{"query": "SELECT a FROM t"}\n```', "SELECT a FROM t"),
    "with in prose": (f"With this we get it: {Q}", Q),
    "two in prose": (f"First: SELECT a FROM u; Better: {Q}", Q),
    "CTE in prose": (f"The answer is\n{CTE}\n", CTE),
    "quoted names": ('SELECT "a b", [c d], `e` FROM "f g"', 'SELECT "a b", [c d], `e` FROM "f g"'),
    "end token": (f"{Q}<|im_end|>", Q),
    "stacked": (f"{Q}; DROP TABLE t", f"{Q}; DROP TABLE t"),
    "stacked in a fence": (f"```sql\n{Q};\nDELETE FROM t;\n```", f"{Q};\nDELETE FROM t"),
    "a statement that writes": ("DELETE FROM t", "DELETE FROM t"),
    "labelled but no query": ("```sql\na FROM t\n```", "a FROM t"),
    "misspelt": ("SELECT name FRM t u v w", "SELECT name FRM t u v w"),
    "Windows line ends": ("```sql\r\nSELECT 1\r\n```\r\n", "SELECT 1"),
}


@pytest.mark.parametrize(("text", "sql"), FOUND.values(), ids=FOUND.keys())
def test_found(text: str, sql: str) -> None:
    assert extract_sql(text) == sql


FROM_FIRST = {
    "FROM t SELECT a": "FROM t SELECT a",
    "FROM t": "FROM t",
    "from t select a where b = 1;": "from t select a where b = 1",
    "Here it is:\n\nFROM t SELECT a;\n\nHope this helps!": "FROM t SELECT a",
    "```sql\nFROM t\n```": "FROM t",
    "Use `FROM t`.": "FROM t",
    "PIVOT t ON a USING sum(b)": "PIVOT t ON a USING sum(b)",
    "From the data we can see: SELECT a FROM t": "SELECT a FROM t",
    "Use the following query: SELECT a FROM t": "SELECT a FROM t",
    "Table 3 shows it: SELECT a FROM t": "SELECT a FROM t",
    "SELECT bad( FROM t": "SELECT bad( FROM t",
    "SELECT bad(\n\nFROM t": "SELECT bad(\n\nFROM t",
    "a, b\nFROM t": None,
    "From what I know, no.": None,
}
"""What DuckDB alone takes for queries, and what it must not make of others."""


@pytest.mark.parametrize(("text", "sql"), FROM_FIRST.items())
def test_from_may_stand_first_where_the_engine_is_duckdb(text: str, sql: str | None) -> None:
    assert extract_sql(text, "duckdb") == sql


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
@pytest.mark.parametrize("text", ["COPY t TO 'x'", "SET statement_timeout = 0", "```\nLOAD 'x'\n```", "CALL f()"])
def test_statements_of_an_engine_are_found_so_that_they_can_be_refused(text: str, engine: str) -> None:
    assert extract_sql(text, engine) == text.strip("`\n")


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_from_is_no_beginning_elsewhere(engine: str) -> None:
    assert extract_sql("FROM t", engine) is None
    assert extract_sql("FROM t SELECT a", engine) == "SELECT a"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        ";",
        "I cannot answer that.",
        "<think>SELECT 1",
        "```python\nprint(1)\n```",
        "-- nothing",
        "a, COUNT(*) FROM t GROUP BY a",
        " * FROM t",
        "name\nFROM t",
    ],
)
def test_none(text: str) -> None:
    """Above all: an answer that begins in the middle of a query is not completed."""
    assert extract_sql(text) is None


def test_an_answer_in_the_middle_does_not_give_its_subquery() -> None:
    found = extract_sql("name FROM t WHERE id IN (SELECT id FROM u)")
    assert found is None or found.startswith("SELECT id FROM u)")  # its closing bracket makes it a syntax error


@given(st.text(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_text_gives_text_or_none(text: str) -> None:
    found = extract_sql(text)
    assert found is None or (found and found == found.strip())


MARKS = [
    "SELECT ", "WITH ", "a", " FROM t", "```", "```sql\n", "\n", ";", "`", "<think>", "</think>", "--", "/*", "*/", "'", '"', "(", ")",
    "AS (", "**", "DROP TABLE t", '{"sql": "', "\x00", "\udce9", "é",
]  # fmt: skip
PIECES = st.lists(st.sampled_from(MARKS), max_size=25).map("".join)


@given(PIECES)
@settings(max_examples=600, deadline=None)
def test_any_mixture_of_marks_gives_text_or_none(text: str) -> None:
    found = extract_sql(text)
    assert found is None or (found and found == found.strip())


QUERIES = st.sampled_from(
    [Q, CTE, "SELECT 1", "select max(a) from t where b like '%x%'", "SELECT a FROM t UNION ALL SELECT b FROM u ORDER BY 1"]
)
PROSE = st.sampled_from(["", "Here is the query you asked for.", "I think this counts each of the groups:", "Let me know if it helps!"])
LABELS = st.sampled_from(["", "sql", "SQL", "sqlite", "SQLite", "postgresql", "mysql", "text", "query"])


@given(QUERIES, PROSE, PROSE, LABELS, st.sampled_from(["", ";", " ;\n"]))
@settings(deadline=None)
def test_fenced_queries_come_back_whole(sql: str, before: str, after: str, label: str, end: str) -> None:
    assert extract_sql(f"{before}\n```{label}\n{sql}{end}\n```\n{after}") == sql


@given(QUERIES, st.sampled_from(["", ";", ";\n\nThis gives each group once.", "\n\nThis gives the number you want."]))
@settings(deadline=None)
def test_plain_queries_come_back_whole(sql: str, after: str) -> None:
    assert extract_sql(sql + after) == sql


@pytest.mark.parametrize(
    "piece",
    [
        "/* a */",
        "-- a\n",
        "(",
        "```",
        "`",
        "SELECT ",
        "SELECT a FROM t ",
        "'",
        "select the rows ",
        "WITH a AS (",
        "<think>",
        "SELECT a\n",
        '"SELECT ',
    ],
)
def test_long_answers_take_little_time(piece: str) -> None:
    begun = time.process_time()
    extract_sql(piece * (40_000 // len(piece)))
    assert time.process_time() - begun < 5.0
