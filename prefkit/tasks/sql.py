"""The task family sql: a question in business language, one SQLite query as the answer, judged by running it.

task = SqlTask.from_dataset(dataset_path("sql-gen"), cache_dir())
task = SqlTask.from_user("my.sqlite", "my.csv")

Prompts, databases and training are SQLite's. Answers in the dialects of DuckDB and PostgreSQL can be judged (`prefkit verify` with
"engine", or verify.sql.SqlCheck), and not asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from prefkit.errors import DataError
from prefkit.hashing import hash_value
from prefkit.tasks.base import Example, Message
from prefkit.tasks.names import INGESTED, SPLITS
from prefkit.tasks.sampling import Parts, make_parts, subset
from prefkit.tasks.schema_text import schema_text

if TYPE_CHECKING:
    from prefkit.verify.sql import SqlCheck

SYSTEM = "Answer the question with one SQLite query."


class SqlTask:
    """Questions over SQLite databases.

    name: the dataset's or the database's name. databases: name -> its SQLite files, data instances of one schema; a right answer is
    right on all of them. values: whether prompts show the values of columns that have few. notes: what a reader of the run should
    know about the data, such as how it was split. timeout_s: time limit of one query in seconds.
    """

    def __init__(
        self,
        name: str,
        databases: Mapping[str, Sequence[Path]],
        examples: Sequence[Example],
        *,
        values: bool = True,
        timeout_s: float = 2.0,
        notes: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.databases = {database: list(paths) for database, paths in databases.items()}
        self.values = values
        self.timeout_s = timeout_s
        self.notes = list(notes)
        self._examples: dict[str, list[Example]] = {split: [] for split in (*SPLITS, INGESTED)}
        for example in examples:
            if example.database not in self.databases:
                known = ", ".join(self.databases)
                raise DataError(f"question {example.id} asks of the database {example.database}, but there are: {known}.")
            self._examples[example.split].append(example)
        self._schemas: dict[str, str] = {}
        self._template: str | None = None

    @classmethod
    def from_dataset(cls, folder: str | Path, cache: str | Path, values: bool = True, timeout_s: float = 2.0) -> SqlTask:
        """The dataset in `folder`; its SQLite files are built once below `cache`/datasets/<name>-<hash of the SQL text>/."""
        from prefkit.tasks.sql_databases import built_databases

        folder = Path(folder)
        examples = [example for split in SPLITS for example in read_split_file(folder, split)]
        if not examples:
            raise DataError(f"{folder} has no questions: `prefkit datasets build {folder.name}` writes its splits.")
        return cls(folder.name, built_databases(folder, Path(cache)), examples, values=values, timeout_s=timeout_s)

    @classmethod
    def from_user(
        cls,
        database: str | Path | Sequence[str | Path],
        questions: str | Path,
        values: bool = True,
        timeout_s: float = 2.0,
        augmented: str | Path | None = None,
    ) -> SqlTask:
        """The user's own database (or several files of one schema with other rows) and questions (.csv or .jsonl).

        augmented: a file of questions that were made from the schema (`data/augment.py`); they only train.
        Raises DatabaseError for a file that is no database, DataError with file and line for a question that cannot be used.
        """
        from prefkit.tasks.user_questions import read_user_questions

        paths = [Path(database)] if isinstance(database, (str, Path)) else [Path(path) for path in database]
        name, examples, notes = read_user_questions(paths, Path(questions), timeout_s, Path(augmented) if augmented else None)
        return cls(name, {name: paths}, examples, values=values, timeout_s=timeout_s, notes=notes)

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(split for split, examples in self._examples.items() if examples)

    def with_ingested(self, examples: Sequence[Example], note: str) -> SqlTask:
        """The same task with questions out of a production log, as the split `ingested`."""
        every = [example for split in self._examples.values() for example in split]
        return SqlTask(
            self.name,
            self.databases,
            [*every, *examples],
            values=self.values,
            timeout_s=self.timeout_s,
            notes=[*self.notes, note],
        )

    def load(self, split: str) -> list[Example]:
        if split not in self.splits:
            raise DataError(f"{self.name} has no split {split}; there are: {', '.join(self.splits)}.")
        return list(self._examples[split])

    def every(self) -> list[Example]:
        """The questions of all splits."""
        return [example for split in self.splits for example in self.load(split)]

    def schema(self, database: str) -> str:
        """The schema of one database as it stands in prompts."""
        if database not in self._schemas:
            self._schemas[database] = schema_text(self.databases[database], values=self.values)
        return self._schemas[database]

    @property
    def template(self) -> str:
        """Of the first turn and of a correction, with marks in the places of what differs. Rows ask for it one by one."""
        if self._template is None:
            self._template = self._hash_of_wording()
        return self._template

    def _hash_of_wording(self) -> str:
        blank = copy(self)
        blank._schemas = {"{database}": "{schema}"}
        example = Example("{id}", "train", "{database}", 1, "{question}", "{gold}")
        return hash_value([blank.prompt(example), blank.correction_prompt(blank.prompt(example), "{answer}", "{feedback}")])

    def prompt(self, example: Example) -> list[Message]:
        return self.prompt_for(example.database, example.question)

    def prompt_for(self, database: str, question: str) -> list[Message]:
        """The messages for any question over one of the databases."""
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"{self.schema(database)}\n\n{question}"}]

    def correction_prompt(self, messages: Sequence[Message], answer: str, feedback: str) -> list[Message]:
        """The conversation so far, a wrong answer, and what the verifier said of it: the next turn is a corrected query."""
        return [
            *messages,
            {"role": "assistant", "content": answer},
            {"role": "user", "content": f"{feedback}\nAnswer with a corrected query."},
        ]

    def check(self, example: Example, answer: str, id: str | None = None) -> SqlCheck:
        from prefkit.verify.sql import SqlCheck

        files = tuple(str(path) for path in self.databases[example.database])
        return SqlCheck(id=id or example.id, answer=answer, golds=example.golds, databases=files, timeout_s=self.timeout_s)

    def parts(
        self,
        seed: int,
        references: int | None = None,
        own: int | None = None,
        calibrate: int | None = None,
        readiness: int | None = 0,
    ) -> Parts:
        """Disjoint parts of the training questions, balanced over databases and levels; None takes an equal share of the rest.

        No gold text stands in two parts. Parts.wanted and Parts.counts say what was asked for and what there was.
        """
        wanted = {"references": references, "own": own, "calibrate": calibrate, "readiness": readiness}
        return make_parts(self.load("train"), seed, wanted)

    def subset(self, examples: Sequence[Example], n: int | None, seed: int) -> list[Example]:
        """`n` of the examples (None: all), balanced over databases and levels, in their order; a smaller n is part of a larger."""
        return subset(examples, n, seed)


def read_split_file(folder: Path, split: str) -> list[Example]:
    """The questions of one built split file; none where there is no such file."""
    path = folder / f"{split}.jsonl"
    if not path.is_file():
        return []
    examples = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            example = Example(split=split, **json.loads(line))
        except (ValueError, TypeError) as error:
            mend = f"build it again with `prefkit datasets build {folder.name}`."
            raise DataError(f"{path}, line {number}: not a question of a built split ({error}); {mend}") from error
        examples.append(example if isinstance(example.gold, str) else replace(example, gold=tuple(example.gold)))
    return examples
