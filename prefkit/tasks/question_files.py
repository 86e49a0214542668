"""Reading a user's questions: CSV or JSON lines, each fault named with its file and line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefkit.errors import DataError
from prefkit.names import suggestion
from prefkit.tasks.names import SPLITS

GOLD_COLUMNS = ("sql", "gold", "query")
COLUMNS = ("question", *GOLD_COLUMNS, "level", "split", "id")
AUGMENTED = "augmented"
"""The `source` of a question that was made from the schema: it trains, and is never held out."""
MOST_SHOWN = 10
_SPLIT_NAMES = {**{split: split for split in SPLITS}, "training": "train", "valid": "validation", "val": "validation", "dev": "validation"}


@dataclass(frozen=True, slots=True)
class Question:
    """One row of a file: `line` is where it begins, counted from 1; `level` and `split` are None where the file does not say.

    augmented: made from the schema; `pattern` names the pattern it was made of.
    """

    line: int
    question: str
    golds: tuple[str, ...]
    level: int | None
    split: str | None
    id: str
    augmented: bool = False
    pattern: str | None = None


def read_questions(path: Path) -> tuple[list[Question], list[str]]:
    """The rows of a .csv or .jsonl file, and notes on what was not used.

    The file has `question` and one of `sql`, `gold`, `query`; it may have `level` (1 to 5), `split`, `id`, and the `source` and `pattern`
    that `prefkit augment` writes. In JSON lines the query may be a list of accepted queries. Raises DataError that lists the faults with
    their lines.
    """
    text = _text(path)
    if path.suffix.lower() == ".csv":
        records = list(_csv_records(path, text))
    elif path.suffix.lower() in (".jsonl", ".ndjson"):
        records = list(_json_records(path, text))
    else:
        raise DataError(f'{path} ends in "{path.suffix}": questions are read from .csv or .jsonl files.')
    faults = [record for _, record in records if isinstance(record, str)]
    rows: list[Question] = []
    unused: set[str] = set()
    for line, record in records:
        if isinstance(record, str):
            continue
        known = (*COLUMNS, "source", "pattern") if record.get("source") == AUGMENTED else COLUMNS
        unused.update(str(key) for key in record if key not in known)
        try:
            rows.append(_question(line, record))
        except ValueError as error:
            faults.append(f"{path}, line {line}: {error}")
    faults += _repeated_ids(path, rows)
    raise_faults(path, faults)
    if not rows:
        raise DataError(f"{path} has no questions: give it a line for each, with the columns question and sql.")
    return rows, [f"columns of {path.name} that are not used: {', '.join(sorted(unused))}"] if unused else []


def raise_faults(path: Path, faults: Sequence[str]) -> None:
    """Raise one DataError that lists the faults, where there are any."""
    if not faults:
        return
    if len(faults) == 1:
        raise DataError(faults[0])
    more = [f"and {len(faults) - MOST_SHOWN} more"] if len(faults) > MOST_SHOWN else []
    raise DataError("\n  ".join([f"{path} has {len(faults)} faults:", *faults[:MOST_SHOWN], *more]))


def _text(path: Path) -> str:
    if not path.is_file():
        raise DataError(f"no questions file at {path}: name an existing .csv or .jsonl file.")
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: not UTF-8 text; save the file as UTF-8.") from error


def _csv_records(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """(line, record), or (line, fault) for a row that has not as many fields as the header."""
    header, _, _ = text.partition("\n")
    separator = max(",;\t", key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    names: list[str] | None = None
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            yield line, f"{path}, line {line}: broken CSV ({error}); a field that holds a quote or a separator stands in double quotes."
            return
        if fields is None:
            return
        if not any(field.strip() for field in fields):
            continue
        if names is None:
            names = [field.strip().lower() for field in fields]
            _check_header(path, line, names)
        elif len(fields) != len(names):
            mend = f"a field that holds a '{separator}' stands in double quotes."
            yield line, f"{path}, line {line}: {len(fields)} fields where the header has {len(names)} ({', '.join(names)}); {mend}"
        else:
            yield line, dict(zip(names, fields, strict=True))


def _check_header(path: Path, line: int, names: list[str]) -> None:
    missing = [] if "question" in names else ["question"]
    if not any(column in names for column in GOLD_COLUMNS):
        missing.append("sql (or gold, or query)")
    if missing:
        raise DataError(f"{path}, line {line}: no column {' and no column '.join(missing)}; the header reads {', '.join(names)}.")
    if len(set(names)) < len(names):
        raise DataError(f"{path}, line {line}: a column stands twice in the header: {', '.join(names)}.")


def _json_records(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    for line, content in enumerate(text.split("\n"), 1):
        if not content.strip():
            continue
        try:
            record = json.loads(content)
        except ValueError as error:
            yield line, f'{path}, line {line}: not JSON ({error}); each line is one object, {{"question": …, "sql": …}}.'
            continue
        if not isinstance(record, dict):
            yield line, f'{path}, line {line}: a {type(record).__name__} where an object is expected, {{"question": …, "sql": …}}.'
            continue
        yield line, {str(key).strip().lower(): value for key, value in record.items()}


def _question(line: int, record: dict[str, Any]) -> Question:
    """Raises ValueError with what is wrong in this row."""
    if "question" not in record:
        raise ValueError(f"no question; it has {', '.join(record) or 'nothing'}.")
    question = record["question"]
    if not isinstance(question, str) or not question.strip():
        raise ValueError("the question is empty.")
    given = [column for column in GOLD_COLUMNS if column in record and record[column] not in (None, "", [])]
    if not given:
        raise ValueError("the query is empty; give it in the column sql (or gold, or query).")
    if len(given) > 1:
        raise ValueError(f"more than one query column is filled: {', '.join(given)}; keep one.")
    value = record[given[0]]
    golds = value if isinstance(value, list) else [value]
    if not all(isinstance(gold, str) and gold.strip() for gold in golds):
        raise ValueError(f"the query in {given[0]} is empty or no text.")
    split, augmented = _split(record.get("split")), record.get("source") == AUGMENTED
    if augmented and split not in (None, "train"):
        raise ValueError(f"a question made from the schema ({AUGMENTED}) can only train, but its split is {split}; leave the split empty.")
    return Question(
        line=line,
        question=question.strip(),
        golds=tuple(gold.strip().rstrip(";").strip() for gold in golds),
        level=_level(record.get("level")),
        split=split,
        id=str(record.get("id") or f"q{line}").strip(),
        augmented=augmented,
        pattern=str(record["pattern"]) if augmented and record.get("pattern") else None,
    )


def _level(value: Any) -> int | None:
    if value is None or value == "":
        return None
    try:
        level = int(str(value))
    except ValueError:
        level = 0
    if not 1 <= level <= 5:
        raise ValueError(f"the level is {value!r}; give 1 to 5, or leave it empty to have it read off the query.")
    return level


def _split(value: Any) -> str | None:
    if value is None or value == "":
        return None
    name = str(value).strip().lower()
    if name not in _SPLIT_NAMES:
        raise ValueError(f"there is no split {value!r}; {suggestion(name, SPLITS)}")
    return _SPLIT_NAMES[name]


def _repeated_ids(path: Path, rows: list[Question]) -> list[str]:
    seen: dict[str, int] = {}
    faults = []
    for row in rows:
        if row.id in seen:
            faults.append(f"{path}, line {row.line}: the id {row.id} stands in line {seen[row.id]} too; ids name one question each.")
        seen.setdefault(row.id, row.line)
    return faults
