"""Every fault of an SQL dataset: golds run by the verifier on both data instances, style, counts, and the leakage rule.

| rule                                                        | why                                                       |
|-------------------------------------------------------------|-----------------------------------------------------------|
| a gold passes its own verifier                              | it runs, is unambiguous, and reads neither clock nor chance |
| it returns something on each instance, at most 60 rows      | a person would read it                                    |
| each condition of a held-out gold changes the result        | an answer that forgets one is found out                   |
| DISTINCT and ORDER BY change the result of a held-out gold  | the same                                                  |
| the level of a held-out gold follows from its parts         | levels mean the same in all databases                     |
| no query form (skeleton with columns) in two splits         | the test asks what training did not show                  |
| no question twice in a database                             |                                                           |
| no more than a tenth of golds alike on both instances       | the second instance separates                             |
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prefkit.errors import DataError
from prefkit.tasks.names import HELD_OUT
from prefkit.tasks.overlap import near_duplicates
from prefkit.tasks.sql_databases import built_databases, database_names
from prefkit.tasks.sql_dataset import Row, all_questions, read_patterns, read_plan, read_questions
from prefkit.tasks.sql_style import style_faults
from prefkit.tasks.sql_text import level_of, skeleton, words
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.sql import SqlCheck
from prefkit.verify.verdict import Status

MOST_ROWS = 60
MOST_ALIKE = 0.1


def check(folder: Path, cache: Path, names: Sequence[str] | None = None, workers: int = 2) -> list[str]:
    """Every fault of the dataset, or of the databases `names`, as messages that say where; none where all is well.

    The leakage rule always looks at the whole dataset.
    """
    chosen = list(names or database_names(folder))
    unknown = [name for name in chosen if name not in database_names(folder)]
    if unknown:
        raise DataError(f"there is no database {', '.join(unknown)} in {folder}; there are: {', '.join(database_names(folder))}.")
    built = built_databases(folder, cache)
    faults = []
    with Scheduler(workers=workers) as scheduler:
        for name in chosen:
            splits = read_questions(folder, name)
            faults += _count_faults(folder, name, splits)
            faults += _gold_faults(splits, built[name], scheduler)
            faults += _repeated_questions(name, splits)
    return faults + [fault for database, fault in leakage_faults(all_questions(folder)) if database in chosen]


def _count_faults(folder: Path, name: str, splits: Mapping[str, list[Row]]) -> list[str]:
    plan = read_plan(folder)
    if not plan:
        return []
    patterns, train = read_patterns(folder, name), splits["train"]
    faults = [
        f"{pattern['id']}: fewer than {plan['wordings']} wordings"
        for pattern in patterns
        if len(set(pattern["wordings"])) < plan["wordings"]
    ]
    wanted = {"unseen": plan["unseen"]} if splits["unseen"] else {split: plan[split] for split in ("validation", "test")}
    if not splits["unseen"] and (len(patterns) < plan["patterns"] or len(train) < plan["train"]):
        faults.append(
            f"{name}: {len(patterns)} patterns, {len(train)} training questions; {plan['patterns']} and {plan['train']} are wanted"
        )
    for split in HELD_OUT:
        counts = dict(sorted(Counter(row["level"] for row in splits[split]).items()))
        if counts != wanted.get(split, {}):
            faults.append(f"{name} {split}: levels {counts}, wanted {wanted.get(split, {})}")
    return faults


def _gold_faults(splits: Mapping[str, list[Row]], databases: Sequence[Path], scheduler: Scheduler) -> list[str]:
    """What the verifier, the style and the results say against each gold."""
    rows = [(split, row) for split, group in splits.items() for row in group]
    files = tuple(map(str, databases))
    connections = [sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True) for path in databases]
    verdicts = list(scheduler.verify(SqlCheck(row["id"], row["gold"], (row["gold"],), files) for _, row in rows))
    passed = [(split, row) for (split, row), verdict in zip(rows, verdicts, strict=True) if verdict.status is Status.PASS]
    idle = _idle_parts(passed, files, scheduler)
    faults, alike = [], 0
    for (split, row), verdict in zip(rows, verdicts, strict=True):
        found = _text_faults(split, row)
        if verdict.status is not Status.PASS:
            found.append(f"{verdict.status}: {verdict.reason}")
        else:
            results = [connection.execute(row["gold"]).fetchall() for connection in connections]
            found += [f"instance {number}: {fault}" for number, result in enumerate(results, 1) if (fault := _result_fault(result))]
            alike += all(sorted(map(repr, result)) == sorted(map(repr, results[0])) for result in results)
            found += [f"{what} changes nothing" for what in idle[row["id"]]]
        faults += [f"{row['id']}: {fault}\n      {row['question']}\n      {row['gold']}" for fault in found]
    for connection in connections:
        connection.close()
    if alike > MOST_ALIKE * len(rows):
        faults.append(f"{databases[0].stem}: {alike} of {len(rows)} golds give the same rows on all instances")
    return faults


def _text_faults(split: str, row: Row) -> list[str]:
    from sqlglot.errors import SqlglotError

    try:
        found = style_faults(row["gold"])
    except SqlglotError as error:
        return [f"cannot be parsed: {error}"]
    if split != "train" and level_of(row["gold"]) != row["level"]:
        found.append(f"level {row['level']}, but by its parts it is {level_of(row['gold'])}")
    return found


def _result_fault(rows: list[tuple]) -> str | None:
    if not rows or all(value is None for row in rows for value in row) or rows == [(0,)]:
        return "empty, only NULL, or a count of 0"
    return f"{len(rows)} rows, more than a person would read" if len(rows) > MOST_ROWS else None


def _idle_parts(rows: Sequence[tuple[str, Row]], files: tuple[str, ...], scheduler: Scheduler) -> dict[str, list[str]]:
    """id -> the parts of its gold without which it still passes; of training questions only a whole WHERE counts."""
    lesser = [(row, what, sql) for split, row in rows for what, sql in without_parts(row["gold"]) if split != "train" or what == "WHERE"]
    verdicts = scheduler.verify(SqlCheck(row["id"], sql, (row["gold"],), files) for row, _, sql in lesser)
    idle: dict[str, list[str]] = {row["id"]: [] for _, row in rows}
    for (row, what, _), verdict in zip(lesser, list(verdicts), strict=True):
        if verdict.status is Status.PASS:
            idle[row["id"]].append(what)
    return idle


def without_parts(sql: str) -> Iterator[tuple[str, str]]:
    """(part, the query without it): the whole WHERE, each of its conditions, HAVING, DISTINCT, ORDER BY, in every SELECT of the query.

    Wrong answers to plant: each does less than the question asks.
    """
    import sqlglot
    from sqlglot import expressions as exp

    tree = sqlglot.parse_one(sql, read="sqlite")
    for index, select in enumerate(tree.find_all(exp.Select)):
        where = select.args.get("where")
        if where is not None:
            yield "WHERE", _without(tree, index, "where")
            conditions = list(where.this.flatten()) if isinstance(where.this, exp.And) else []
            for condition in conditions:
                rest = exp.and_(*(other.copy() for other in conditions if other is not condition))
                yield f"condition {condition.sql('sqlite')}", _without(tree, index, "where", exp.Where(this=rest))
        for part, name in (("having", "HAVING"), ("distinct", "DISTINCT")):
            if select.args.get(part) is not None:
                yield name, _without(tree, index, part)
        if select.args.get("order") is not None and select.args.get("limit") is None:
            yield "ORDER BY", _without(tree, index, "order")
    for index, count in enumerate(tree.find_all(exp.Count)):
        if isinstance(count.this, exp.Distinct):
            lesser = tree.copy()
            target = list(lesser.find_all(exp.Count))[index]
            target.set("this", target.this.expressions[0].copy())
            yield "DISTINCT in COUNT", lesser.sql("sqlite")


def _without(tree, index: int, part: str, replacement: object = None) -> str:
    from sqlglot import expressions as exp

    lesser = tree.copy()
    list(lesser.find_all(exp.Select))[index].set(part, replacement)
    return lesser.sql("sqlite")


def _repeated_questions(name: str, splits: Mapping[str, list[Row]]) -> list[str]:
    counts = Counter(" ".join(words(row["question"])) for rows in splits.values() for row in rows)
    return [f"{name}: asked {count} times: {question}" for question, count in counts.items() if count > 1]


@dataclass(frozen=True, slots=True)
class Leakage:
    """What held-out questions of one split share with training.

    forms: query forms (skeleton with columns). questions: the same words. near: at least `overlap.NEAR` of the words, as
    (held-out row, training row, overlap).
    """

    forms: int
    questions: int
    near: list[tuple[Row, Row, float]]


def leakage_faults(splits: Mapping[str, list[Row]]) -> list[tuple[str, str]]:
    """(database, message) for each held-out gold whose query form stands elsewhere: in training, in any database, or held out before."""
    seen = {skeleton(row["gold"]): f"train ({row['id']})" for row in splits["train"]}
    faults = []
    for split in HELD_OUT:
        for row in splits[split]:
            form = skeleton(row["gold"])
            if form in seen:
                faults.append((row["database"], f"{row['id']}: its skeleton and columns stand in {seen[form]} too\n      {row['gold']}"))
            seen[form] = f"{split} ({row['id']})"
    return faults


def leakage(splits: Mapping[str, list[Row]], split: str) -> Leakage:
    """What one held-out split shares with the training questions of all databases."""
    train, held_out = splits["train"], splits[split]
    forms = {skeleton(row["gold"]) for row in train}
    asked = {" ".join(words(row["question"])) for row in train}
    found = near_duplicates([row["question"] for row in held_out], [row["question"] for row in train])
    return Leakage(
        forms=sum(skeleton(row["gold"]) in forms for row in held_out),
        questions=sum(" ".join(words(row["question"])) in asked for row in held_out),
        near=[(held_out[i], train[j], share) for i, j, share in found],
    )
