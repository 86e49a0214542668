"""Training questions for a user's own schema: the role patterns of sql-gen bound to its tables, each query executed before it is taken.

1. What the tables and columns are: `augment_profile.py`.
2. Which queries and questions the patterns make of them: `augment_bind.py`, `augment_filters.py`, `augment_words.py`.
3. Which of them are fit to train on (below), in a choice that is balanced over levels, patterns and tables.

| a query is left out where                                           | why                                              |
|---------------------------------------------------------------------|--------------------------------------------------|
| its question or its form is that of a held-out question             | the test must stay a test                        |
| it does not pass its own verifier                                   | it fails, or has more than one right result      |
| it returns nothing, only NULL, or a count of 0 on a data instance   | whatever returns nothing would be right there    |
| a row of it is nothing but NULL                                     | no person means that row                         |
| it returns more than MOST_ROWS rows                                 | no person would read them                        |
| it still passes without its WHERE, one condition, DISTINCT, HAVING, ORDER BY or LIMIT | that part of the question would teach nothing |

Only training sees them: each is marked `source: augmented`, `split: train`, with its pattern. The same database, questions, count and
seed give the same rows.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prefkit.data.augment_bind import Binder, Candidate, Pattern
from prefkit.data.augment_profile import read_tables
from prefkit.errors import DataError
from prefkit.tasks.overlap import HeldOut
from prefkit.tasks.question_files import AUGMENTED
from prefkit.tasks.sql import SqlTask
from prefkit.tasks.sql_dataset_check import without_parts
from prefkit.tasks.sql_text import level_of, skeleton, words
from prefkit.verify.query import query
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.sql import SqlCheck
from prefkit.verify.verdict import Status

COUNT = 1000
"""Questions that are made by default: with the user's own, as many as the recipe sql-gen takes."""
MOST_ROWS = 60
TRIES = 240
"""Bindings that are drawn of each pattern."""
WAVE = 128
"""Candidates that are executed together."""
MOST_WORDINGS = 3
"""Questions of one query. A second is only made where there are too few queries."""

Row = dict[str, Any]


@dataclass
class Augmented:
    """What was made. rows: the questions, as they go into the file. dropped: why candidates were left out -> how many.

    candidates: different queries that the patterns made. results: id -> (columns, first rows) on the first data instance.
    """

    rows: list[Row] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    candidates: int = 0
    results: dict[str, tuple[list[str], list[tuple]]] = field(default_factory=dict)
    tables: Counter[str] = field(default_factory=Counter)


def augment(
    task: SqlTask,
    patterns: Sequence[Pattern],
    scheduler: Scheduler,
    count: int = COUNT,
    seed: int = 0,
    advance: Callable[[int], None] = lambda taken: None,
) -> Augmented:
    """Up to `count` training questions over the task's one database. `advance` is told how many were taken since it was last called.

    Raises DataError for a task with several databases, or where no question can be made of the schema.
    """
    if len(task.databases) != 1:
        raise DataError(f"{task.name} has {len(task.databases)} databases; questions are made for one, your own.")
    files = next(iter(task.databases.values()))
    binder = Binder(read_tables(files), seed)
    candidates = [candidate for pattern in patterns for candidate in binder.candidates(pattern, TRIES)]
    made = Augmented(candidates=len(candidates))
    asked = _Asked(task, made.dropped)
    judge = _Judge(task, files, scheduler)
    pool = _Pool(candidates)
    kept: list[Candidate] = []
    while len(made.rows) < count and (wave := pool.take(min(WAVE, count - len(made.rows)))):
        fresh = asked.only_new(wave)
        found = judge.problems([candidate for candidate, _ in fresh])
        taken = 0
        for (candidate, question), (problem, result) in zip(fresh, found, strict=True):
            if problem:
                made.dropped[problem] += 1
                asked.forget(question)
                continue
            _keep(made, candidate, question, result)
            kept.append(candidate)
            taken += 1
            pool.count(candidate)
        advance(taken)
    for number in range(1, MOST_WORDINGS):
        for candidate in kept:
            if len(made.rows) < count and number < len(candidate.questions) and asked.add(candidate.questions[number]):
                _keep(made, candidate, candidate.questions[number], None)
                advance(1)
    if not made.rows:
        reasons = "; ".join(f"{reason}: {number}" for reason, number in made.dropped.most_common(3)) or "no pattern fits its tables"
        raise DataError(f"no question could be made of {files[0]} ({reasons}).")
    return made


def _keep(made: Augmented, candidate: Candidate, question: str, result: tuple[list[str], list[tuple]] | None) -> None:
    id = f"augmented-{len(made.rows) + 1}"
    made.rows.append(
        {
            "id": id,
            "question": question,
            "sql": candidate.sql,
            "level": level_of(candidate.sql),
            "split": "train",
            "source": AUGMENTED,
            "pattern": candidate.pattern,
        }
    )
    made.tables.update(candidate.tables)
    if result is not None:
        made.results[id] = result


class _Pool:
    """The candidates, given out so that what was taken stays balanced over levels, patterns, and the patterns' first tables."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._queues: dict[int, dict[str, dict[str, deque[Candidate]]]] = {}
        self._taken: Counter[object] = Counter()
        levels: dict[str, int] = {}
        self._level: dict[str, int] = {}
        for candidate in candidates:
            form = skeleton(candidate.sql)
            level = levels[form] = levels.get(form) or level_of(candidate.sql)
            self._level[candidate.sql] = level
            queue = self._queues.setdefault(level, {}).setdefault(candidate.pattern, {}).setdefault(candidate.tables[0], deque())
            queue.append(candidate)

    def count(self, candidate: Candidate) -> None:
        """Note that it was taken for good."""
        level = self._level[candidate.sql]
        self._taken.update([level, (level, candidate.pattern), (candidate.pattern, candidate.tables[0]), candidate.tables[0]])

    def take(self, number: int) -> list[Candidate]:
        """Up to `number` candidates that are next in turn; none where there are no more."""
        pending = Counter(self._taken)
        chosen = []
        while len(chosen) < number and self._queues:
            level = min(self._queues, key=lambda name: (pending[name], name))
            patterns = self._queues[level]
            pattern = min(patterns, key=lambda name: pending[level, name])
            tables = patterns[pattern]
            table = min(tables, key=lambda name: (pending[pattern, name], pending[name]))
            candidate = tables[table].popleft()
            pending.update([level, (level, pattern), (pattern, table), table])
            chosen.append(candidate)
            if not tables[table]:
                del tables[table]
            if not tables:
                del patterns[pattern]
            if not patterns:
                del self._queues[level]
        return chosen


class _Asked:
    """The questions there are already: the user's own, and those made so far. Counts why a new one is left out."""

    def __init__(self, task: SqlTask, dropped: Counter[str]) -> None:
        own = task.every()
        self._held_out = HeldOut(example for example in own if example.split != "train")
        self._questions = {tuple(words(example.question)) for example in own}
        self._dropped = dropped

    def add(self, question: str) -> bool:
        """Whether it may be asked and was not asked before; from now on it was."""
        key = tuple(words(question))
        if key in self._questions or self._held_out.shares_words(question):
            return False
        self._questions.add(key)
        return True

    def forget(self, question: str) -> None:
        self._questions.discard(tuple(words(question)))

    def only_new(self, wave: Sequence[Candidate]) -> list[tuple[Candidate, str]]:
        """Those of a wave whose query form no held-out question has, each with its first wording that is new."""
        fresh = []
        for candidate in wave:
            if self._held_out.shares_form([candidate.sql]):
                self._dropped["the query form of a held-out question"] += 1
                continue
            question = next((question for question in candidate.questions if self.add(question)), None)
            if question is None:
                self._dropped["asked before, or nearly the words of a held-out question"] += 1
            else:
                fresh.append((candidate, question))
        return fresh


class _Judge:
    """Executes candidates on every data instance and says what is wrong with them."""

    def __init__(self, task: SqlTask, files: Sequence[Path], scheduler: Scheduler) -> None:
        self._files, self._timeout_s, self._scheduler = tuple(map(str, files)), task.timeout_s, scheduler

    def problems(self, candidates: Sequence[Candidate]) -> list[tuple[str, tuple[list[str], list[tuple]] | None]]:
        """For each candidate why it cannot be used, or "", and its columns and first rows."""
        checks = [self._check(str(number), candidate.sql, candidate.sql) for number, candidate in enumerate(candidates)]
        found: list[tuple[str, tuple[list[str], list[tuple]] | None]] = []
        for verdict, candidate in zip(list(self._scheduler.verify(checks)), candidates, strict=True):
            if verdict.status is Status.PASS:
                found.append(self._result(candidate.sql))
            else:
                found.append((re.sub(r" \(data instance \d+\)", "", verdict.reason), None))
        idle = self._idle([(number, candidates[number].sql) for number, (problem, _) in enumerate(found) if not problem])
        return [(problem or idle.get(number, ""), result) for number, (problem, result) in enumerate(found)]

    def _check(self, id: str, sql: str, gold: str) -> SqlCheck:
        return SqlCheck(id, sql, (gold,), self._files, self._timeout_s)

    def _result(self, sql: str) -> tuple[str, tuple[list[str], list[tuple]] | None]:
        first = None
        ends = _at_the_limit(sql)
        for file in self._files:
            result = query(self._scheduler, file, sql, self._timeout_s, MOST_ROWS + 1)
            tied = query(self._scheduler, file, ends, self._timeout_s).rows if ends else []
            if len(tied) == 2 and tied[0] == tied[1]:
                # Small databases the verifier has looked through for this; of large ones it makes no copy.
                return "gold is ambiguous: LIMIT cuts through ties", None
            first = first or (result.columns, result.rows[:3])
            if problem := _result_problem(result.rows):
                return problem, None
        return "", first

    def _idle(self, queries: Sequence[tuple[int, str]]) -> dict[int, str]:
        """number -> the part of its query that changes nothing."""
        parts = [(number, part, lesser, sql) for number, sql in queries for part, lesser in _lesser(sql)]
        verdicts = self._scheduler.verify(self._check("", lesser, sql) for _, _, lesser, sql in parts)
        idle: defaultdict[int, str] = defaultdict(str)
        for (number, part, _, _), verdict in zip(parts, list(verdicts), strict=True):
            if verdict.status is Status.PASS:
                idle[number] = f"{'one of its conditions' if part.startswith('condition') else f'its {part}'} changes nothing"
        return idle


def _result_problem(rows: Sequence[tuple]) -> str:
    if not rows or all(value is None for row in rows for value in row) or rows == [(0,)]:
        return "nothing, only NULL, or a count of 0 on a data instance"
    if len(rows) > MOST_ROWS:
        return f"more than {MOST_ROWS} rows"
    return "a row of nothing but NULL" if any(all(value is None for value in row) for row in rows) else ""


def _lesser(sql: str) -> Iterator[tuple[str, str]]:
    """(part, the query without it)."""
    import sqlglot

    yield from without_parts(sql)
    tree = sqlglot.parse_one(sql, read="sqlite")
    if tree.args.get("limit") is not None:
        tree.set("limit", None)
        yield "LIMIT", tree.sql("sqlite")


def _at_the_limit(sql: str) -> str:
    """The sort keys of the last row that a query's LIMIT takes and of the first that it leaves; "" for a query without one."""
    import sqlglot
    from sqlglot import expressions as exp

    tree = sqlglot.parse_one(sql, read="sqlite")
    limit, order = tree.args.get("limit"), tree.args.get("order")
    if limit is None or order is None:
        return ""
    tree.set("expressions", [key.this.copy() for key in order.expressions])
    tree.set("limit", exp.Limit(expression=exp.Literal.number(2)))
    tree.set("offset", exp.Offset(expression=exp.Literal.number(int(limit.expression.name) - 1)))
    return tree.sql("sqlite")


def examples_to_read(made: Augmented, number: int = 10) -> list[tuple[Row, list[str], list[tuple]]]:
    """(question, columns, first rows) of some of the questions, from every level and from different patterns, for a person to read."""
    by_level: defaultdict[int, list[Row]] = defaultdict(list)
    for row in made.rows:
        if row["id"] in made.results:
            by_level[row["level"]].append(row)
    queues = [_spread(rows) for _, rows in sorted(by_level.items())]
    chosen: list[Row] = []
    while len(chosen) < number and any(queues):
        for queue in queues:
            if queue and len(chosen) < number:
                shown = {row["pattern"] for row in chosen}
                chosen.append(queue.pop(next((place for place, row in enumerate(queue) if row["pattern"] not in shown), 0)))
    return [(row, *made.results[row["id"]]) for row in sorted(chosen, key=lambda row: row["level"])]


def _spread(rows: Sequence[Row]) -> list[Row]:
    """One of each pattern first, from the middle of its own; then the next of each."""
    by_pattern: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_pattern[row["pattern"]].append(row)
    turns = [group[len(group) // 2 :] + group[: len(group) // 2] for group in by_pattern.values()]
    # Patterns far apart in the file come one after the other.
    turns = [*turns[::3], *turns[1::3], *turns[2::3]]
    return [group[turn] for turn in range(max(map(len, turns), default=0)) for group in turns if turn < len(group)]
