"""A user's database and questions as a task: golds are run, levels read off, splits drawn, and what was done is said in notes."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from prefkit.errors import DatabaseError, DataError
from prefkit.tasks.base import Example
from prefkit.tasks.names import SPLITS
from prefkit.tasks.overlap import HeldOut, near_duplicates
from prefkit.tasks.question_files import Question, raise_faults, read_questions
from prefkit.tasks.schema_text import connect, schema_text
from prefkit.tasks.sql_text import level_of, normalised, skeleton, words

SHARES = {"train": 0.60, "validation": 0.15, "test": 0.25}
_STEPS_PER_SECOND = 10_000_000


def read_user_questions(
    databases: Sequence[Path], questions: Path, timeout_s: float, augmented: Path | None = None
) -> tuple[str, list[Example], list[str]]:
    """(name of the database, examples, notes). Raises DatabaseError or DataError with the file and the line.

    Rows marked as augmented, in either file, only train; in the file `augmented` all are.
    """
    if not databases:
        raise DatabaseError("no database is named: give an SQLite file.")
    _same_schema(databases)
    rows, notes = _usable_rows(databases, questions, timeout_s)
    own, made = [row for row in rows if not row.augmented], [row for row in rows if row.augmented]
    if augmented is not None:
        more, said = _usable_rows(databases, augmented, timeout_s)
        if other := next((row for row in more if not row.augmented), None):
            mend = "questions of your own stand in task.questions."
            raise DataError(f"{augmented}, line {other.line}: not marked as augmented; this file is what `prefkit augment` made, {mend}")
        made, notes = [*made, *more], [*notes, *said]
    splits, note = _splits(questions, own)
    name = databases[0].stem
    examples = [_example(row, splits[row.line], name) for row in own]
    if made:
        added, said = _added(examples, made, name)
        return name, [*examples, *added], [*notes, note, said, *_leakage_notes(examples)]
    return name, examples, [*notes, note, *_leakage_notes(examples)]


def _usable_rows(databases: Sequence[Path], path: Path, timeout_s: float) -> tuple[list[Question], list[str]]:
    """The rows of a file, each once and with queries that run, and notes."""
    rows, notes = read_questions(path)
    faults = _gold_faults(databases, path, rows, timeout_s)
    rows, repeated = _without_repeats(path, rows, faults)
    raise_faults(path, faults)
    if repeated:
        notes.append(f"{repeated} repeated question{'s' if repeated > 1 else ''} left out: same words and same query as an earlier line")
    return rows, notes


def _example(row: Question, split: str, database: str) -> Example:
    gold = row.golds[0] if len(row.golds) == 1 else row.golds
    return Example(row.id, split, database, row.level or level_of(row.golds[0]), row.question, gold, row.pattern)


def _added(own: Sequence[Example], made: Sequence[Question], name: str) -> tuple[list[Example], str]:
    """The augmented questions that may train beside the user's own, and a note."""
    held_out = HeldOut(example for example in own if example.split != "train")
    asked = {tuple(words(example.question)) for example in own}
    ids = {example.id for example in own}
    added = []
    for row in made:
        if row.id in ids:
            raise DataError(f"the id {row.id} stands in two files of questions; ids name one question each.")
        if tuple(words(row.question)) not in asked and not held_out.shares_form(row.golds) and not held_out.shares_words(row.question):
            added.append(_example(row, "train", name))
            ids.add(row.id)
    left_out = len(made) - len(added)
    why = f"; {left_out} left out, which share their words or their query form with your own" if left_out else ""
    return added, f"{len(added)} augmented questions, made from the schema, which only train{why}"


def _same_schema(databases: Sequence[Path]) -> None:
    first, *others = [schema_text([path], values=False).splitlines() for path in databases]
    for path, lines in zip(databases[1:], others, strict=True):
        if lines != first:
            differing = next((line for line in (*lines, *first) if line not in first or line not in lines), "the order of its tables")
            raise DatabaseError(f"{path} has another schema than {databases[0]} ({differing}); data instances differ in their rows only.")


def _gold_faults(databases: Sequence[Path], path: Path, rows: Sequence[Question], timeout_s: float) -> list[str]:
    """A fault for each query that does not run on each data instance."""
    faults = []
    connections = [(database, connect(database)) for database in databases]
    try:
        for row in rows:
            for gold in row.golds:
                for database, connection in connections:
                    reason = _run(connection, gold, timeout_s)
                    if reason:
                        faults.append(f"{path}, line {row.line}: the query fails on {database.name} ({reason}): {gold}")
                        break
    finally:
        for _, connection in connections:
            connection.close()
    return faults


def _run(connection: sqlite3.Connection, sql: str, timeout_s: float) -> str | None:
    """Why the query fails, or None. Its time limit is one on SQLite's steps, as in the verifier."""
    steps = max(1, int(timeout_s * _STEPS_PER_SECOND / 1000))
    left = [steps]

    def tick() -> int:
        left[0] -= 1
        return left[0] < 0

    connection.set_progress_handler(tick, 1000)
    try:
        cursor = connection.execute(sql)
        if cursor.description is None:
            return "it returns no rows; give a SELECT"
        while cursor.fetchmany(1000):
            pass
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        return f"longer than {timeout_s:g} s" if left[0] < 0 else str(error)
    finally:
        connection.set_progress_handler(None, 0)
    return None


def _without_repeats(path: Path, rows: Sequence[Question], faults: list[str]) -> tuple[list[Question], int]:
    """The rows without those that repeat an earlier one; the same question with another query is a fault."""
    first: dict[tuple[str, ...], Question] = {}
    for row in rows:
        key = tuple(words(row.question)) or (row.question,)
        earlier = first.setdefault(key, row)
        if earlier is not row and set(map(normalised, earlier.golds)) != set(map(normalised, row.golds)):
            mend = "word them apart, or accept both queries: a list in the sql of one JSON line."
            faults.append(f"{path}, line {row.line}: the same question as in line {earlier.line}, with another query; {mend}")
    kept = list(first.values())
    return kept, len(rows) - len(kept)


def _splits(path: Path, rows: Sequence[Question]) -> tuple[dict[int, str], str]:
    """line -> split, and a note that says the counts."""
    if not rows:
        raise DataError(f"{path} has augmented questions only; give it questions of your own, which are held out.")
    marked = [row for row in rows if row.split]
    if marked and len(marked) < len(rows):
        line = next(row.line for row in rows if not row.split)
        raise DataError(f"{path}, line {line}: no split, where other lines have one; fill the column for all lines or for none.")
    splits = {row.line: row.split or "" for row in rows} if marked else _drawn_splits(rows)
    counts = Counter(splits.values())
    said = ", ".join(f"{counts[split]} {split}" for split in SPLITS if counts[split])
    missing = [split for split in SHARES if not counts[split]]
    if missing and marked:
        raise DataError(f"{path}: no question has the split {' or '.join(missing)} ({said}); mark some, or leave the column out.")
    if missing:
        raise DataError(
            f"{path}: too few different questions to be split ({said}); add questions of other query forms, "
            "or say in a column split which are train, validation and test."
        )
    if marked:
        return splits, f"{len(rows)} questions, split as the file says: {said}"
    return splits, f"{len(rows)} questions, split by hash of their query form, none of which is in two splits: {said}"


def _drawn_splits(rows: Sequence[Question]) -> dict[int, str]:
    """60 % train, 15 % validation, 25 % test. Questions of one query form, or of nearly the same words, stay together.

    The order in which groups are dealt comes from a hash of their query forms, so it does not depend on the order of the file.
    """
    groups = _groups(rows)
    ranked = sorted(
        groups, key=lambda group: (-len(group), hashlib.sha256(min(skeleton(row.golds[0]) for row in group).encode()).hexdigest())
    )
    have, done, splits = Counter[str](), 0, {}
    for group in ranked:
        done += len(group)
        reached = done
        split = max(SHARES, key=lambda name: SHARES[name] * reached - have[name])
        have[split] += len(group)
        splits.update((row.line, split) for row in group)
    return splits


def _groups(rows: Sequence[Question]) -> list[list[Question]]:
    """Rows joined by a query form or by nearly the same words, directly or over others."""
    leader = list(range(len(rows)))

    def find(index: int) -> int:
        while leader[index] != index:
            leader[index] = leader[leader[index]]
            index = leader[index]
        return index

    forms: dict[str, int] = {}
    for index, row in enumerate(rows):
        for gold in row.golds:
            leader[find(index)] = find(forms.setdefault(skeleton(gold), index))
    texts = [row.question for row in rows]
    for i, j, _ in near_duplicates(texts, texts):
        leader[find(i)] = find(j)
    groups: dict[int, list[Question]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(find(index), []).append(row)
    return list(groups.values())


def _leakage_notes(examples: Sequence[Example]) -> list[str]:
    """Notes on held-out questions that training has nearly seen."""
    train = [example for example in examples if example.split == "train"]
    held_out = [example for example in examples if example.split != "train"]
    forms = {skeleton(gold) for example in train for gold in example.golds}
    known = sum(any(skeleton(gold) in forms for gold in example.golds) for example in held_out)
    near = len({i for i, _, _ in near_duplicates([e.question for e in held_out], [e.question for e in train])})
    notes = []
    if known:
        notes.append(f"{known} of {len(held_out)} held-out questions have a query form that training has too, with other values")
    if near:
        notes.append(f"{near} of {len(held_out)} held-out questions share at least four fifths of their words with a training question")
    return notes
