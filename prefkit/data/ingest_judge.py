"""Which logged questions may train, which corrections can be taken, and what every answer is worth: all of it by execution.

A correction of a question that the task does not know becomes the question's reference when it runs, returns rows on every data instance,
has one right result, and every other correction of the question that can be taken returns the same. Answers are then judged by it; answers
to a question of the task by the task's own reference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from prefkit.data.ingest_store import Row, Store
from prefkit.data.redact import Redactor
from prefkit.data.rollouts import verdict_row
from prefkit.progress import TaskProgress
from prefkit.tasks.base import Example
from prefkit.tasks.names import HELD_OUT, INGESTED
from prefkit.tasks.overlap import near_duplicates
from prefkit.tasks.sql import SqlTask
from prefkit.tasks.sql_text import level_of, skeleton, words
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.sql import SqlCheck
from prefkit.verify.verdict import Status, Verdict

BATCH = 5000
"""Questions that are compared with the held-out ones at once."""


class Known:
    """The questions of a task, found by their id and by their words."""

    def __init__(self, task: SqlTask) -> None:
        self.examples = {example.id: example for example in task.every()}
        self.held_out = [example for example in self.examples.values() if example.split in HELD_OUT]
        # A question that stands in two splits counts as held out.
        ordered = sorted(self.examples.values(), key=lambda example: example.split in HELD_OUT)
        self._by_words = {(example.database, question_key(example.question)): example for example in ordered}
        self.forms = {skeleton(gold): example.split for example in self.held_out for gold in example.golds}
        self._databases: dict[str, list[Example]] = {}
        for (_, key), example in self._by_words.items():
            self._databases.setdefault(key, []).append(example)

    def find(self, database: str, question: str) -> Example | None:
        """The task's question with these words."""
        return self._by_words.get((database, question_key(question)))

    def database_of(self, question: str) -> str | None:
        """The database of which a question with these words is asked, where there is only one."""
        found = {example.database for example in self._databases.get(question_key(question), [])}
        return found.pop() if len(found) == 1 else None


def question_key(question: str) -> str:
    """What tells questions apart: their words."""
    return " ".join(words(question)) or question.strip()


def hold_near_questions(store: Store, known: Known) -> None:
    """Keep questions from training that are nearly a held-out question of the same database."""
    by_database: dict[str, list[Example]] = {}
    for example in known.held_out:
        by_database.setdefault(example.database, []).append(example)
    batch: list[Row] = []

    def look() -> None:
        for database, held_out in by_database.items():
            rows = [row for row in batch if row["database"] == database]
            for i, j, _ in near_duplicates([row["question"] for row in rows], [example.question for example in held_out]):
                held = f"held out: nearly the words of a {held_out[j].split} question"
                store.do("UPDATE groups SET held = ? WHERE id = ?", held, rows[i]["id"])
        batch.clear()

    for row in store.pages("SELECT id, database, question FROM groups WHERE known IS NULL AND held IS NULL AND {after}", "id"):
        batch.append(row)
        if len(batch) == BATCH:
            look()
    look()


_NEW = "g.known IS NULL AND g.held IS NULL"
_CORRECTIONS = f"""SELECT a.id, a.content, a.query, g.database FROM answers a JOIN groups g ON g.id = a.grp
                   WHERE a.correction AND a.fault IS NULL AND {_NEW} AND {{after}}"""
_OTHERS = """SELECT a.id, a.content, g.database, gold.content AS gold FROM answers a JOIN groups g ON g.id = a.grp
             JOIN answers gold ON gold.id = g.gold WHERE a.correction AND a.fault = '' AND a.id <> g.gold AND {after}"""
_JUDGED = """SELECT a.id, a.content, g.known, g.made, g.level, g.database, g.question, gold.content AS gold FROM answers a
             JOIN groups g ON g.id = a.grp LEFT JOIN answers gold ON gold.id = g.gold
             WHERE (g.known IS NOT NULL OR g.gold IS NOT NULL) AND {after}"""


def judge_corrections(store: Store, known: Known, task: SqlTask, scheduler: Scheduler, shown: TaskProgress) -> None:
    """Note of each correction of a new question why it cannot be taken ('' where it can), and choose each question's reference."""
    for row in store.pages(_CORRECTIONS, "a.id"):
        form = known.forms.get(skeleton(row["content"]))
        if not row["query"]:
            store.do("UPDATE answers SET fault = 'the correction holds no query' WHERE id = ?", row["id"])
        elif form:
            fault = f"held out: the correction has the query form of a {form} question"
            store.do("UPDATE answers SET fault = ? WHERE id = ?", fault, row["id"])
    # All data instances together say whether it can be judged by; each alone, whether it returns rows there.
    every = {name: tuple(map(str, files)) for name, files in task.databases.items()}
    parts = {name: [files, *((file,) for file in files if len(files) > 1)] for name, files in every.items()}
    shown.set_total(sum(len(parts[row["database"]]) for row in store.pages(_CORRECTIONS, "a.id")))

    def checks() -> Iterator[SqlCheck]:
        for row in store.pages(_CORRECTIONS, "a.id"):
            for place, part in enumerate(parts[row["database"]]):
                yield SqlCheck(f"{row['id']}/{place}", row["content"], (row["content"],), part, task.timeout_s)

    for verdict in scheduler.verify(checks()):
        id, _, place = verdict.id.partition("/")
        if verdict.status != Status.PASS:
            store.do("UPDATE answers SET fault = ? WHERE id = ? AND fault IS NULL", _fault(verdict, int(place)), int(id))
        shown.advance()
    store.do(f"UPDATE answers SET fault = '' WHERE correction AND fault IS NULL AND grp IN (SELECT id FROM groups g WHERE {_NEW})")
    _choose(store, task, scheduler)


def _fault(verdict: Verdict, place: int) -> str:
    """Why a correction cannot be taken, from what was said of it as a gold."""
    if verdict.status == Status.INFRA:
        return "the correction could not be judged"
    reason = verdict.reason.replace("gold is empty on every data instance", "gold returns no rows")
    where = f" on data instance {place}" if place else ""
    return f"the correction{reason.removeprefix('gold')}{where}" if reason.startswith("gold") else f"the correction: {reason}"


def _choose(store: Store, task: SqlTask, scheduler: Scheduler) -> None:
    """The first correction that can be taken is the reference, where all others that can be taken return the same."""
    first = "SELECT MIN(id) FROM answers WHERE grp = g.id AND correction AND fault = ''"
    store.do(f"UPDATE groups AS g SET gold = ({first}) WHERE {_NEW}")

    def checks() -> Iterator[SqlCheck]:
        for row in store.pages(_OTHERS, "a.id"):
            yield SqlCheck(str(row["id"]), row["content"], (row["gold"],), tuple(map(str, task.databases[row["database"]])), task.timeout_s)

    for verdict in scheduler.verify(checks()):
        if verdict.status != Status.PASS:
            problem = "corrections of the same question contradict each other"
            store.do("UPDATE groups SET problem = ? WHERE id = (SELECT grp FROM answers WHERE id = ?)", problem, int(verdict.id))
    store.do("UPDATE groups SET gold = NULL WHERE problem IS NOT NULL")


def judge_answers(store: Store, known: Known, task: SqlTask, scheduler: Scheduler, stem: str, shown: TaskProgress) -> None:
    """The verdict on every different answer whose question has a reference, the task's or a correction."""
    chosen = "SELECT g.id, a.content, a.line FROM groups g JOIN answers a ON a.id = g.gold WHERE {after}"
    for row in store.pages(chosen, "g.id"):
        store.do("UPDATE groups SET level = ?, made = ? WHERE id = ?", level_of(row["content"]), f"{stem}/{row['line']}", row["id"])

    shown.set_total(store.count(f"SELECT COUNT(*) FROM ({_JUDGED.format(after='TRUE')})"))

    def checks() -> Iterator[SqlCheck]:
        for row in store.pages(_JUDGED, "a.id"):
            yield task.check(example_of(row, known), row["content"], id=str(row["id"]))

    redact = Redactor()  # what came out of the database may be somebody's address; this is no find in the log
    for verdict in scheduler.verify(checks()):
        kept: dict[str, Any] = verdict_row(verdict)
        kept["feedback"] = kept["feedback"] and redact(kept["feedback"])
        values = (str(verdict.status), verdict.score, json.dumps(kept), int(verdict.id))
        store.do("UPDATE answers SET status = ?, score = ?, verdict = ? WHERE id = ?", *values)
        shown.advance()


def example_of(row: Row, known: Known) -> Example:
    """The question of a group: the task's own, or the new one."""
    if row["known"]:
        return known.examples[row["known"]]
    return Example(row["made"], INGESTED, row["database"], row["level"], row["question"], row["gold"])
