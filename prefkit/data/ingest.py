"""Production logs into training rows: read, redact, find what is known, judge by execution, write rows and a report.

    read a line -> redact it -> scratch database -> judge corrections -> judge answers -> rows -> report.json, report.md

What a log says is believed nowhere: a correction must run and return rows on every data instance before anything is judged by it, and a
thumb is compared with verdicts, never taken for one. The original text of a line is written nowhere. An ingest that is killed leaves the
folder as it was or without report.json, so that nobody takes half a folder for a whole one; the same call begins again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefkit.data import ingest_judge, ingest_report
from prefkit.data.column_map import ColumnMap
from prefkit.data.ingest_judge import Known
from prefkit.data.ingest_lines import Entry, Fault, read_log
from prefkit.data.ingest_rows import FILES, Rows, decide
from prefkit.data.ingest_store import Store
from prefkit.data.redact import Redactor
from prefkit.errors import DataError
from prefkit.files import TEMPORARY
from prefkit.hashing import hash_bytes
from prefkit.names import suggestion
from prefkit.progress import Progress
from prefkit.runfolder import RunFolder
from prefkit.tasks.names import HELD_OUT
from prefkit.tasks.sql import SqlTask
from prefkit.verify.extract import extract_sql
from prefkit.verify.scheduler import Scheduler

FIRST_LINES = 1000
"""Where not one of so many lines can be read, the file is no log, or its columns have other names."""
LONGEST_DETAIL = 200
MOST_FIELDS = 20


@dataclass(frozen=True, slots=True)
class Log:
    """A file of logs. `lines`: how many it has, empty ones included. `sha256`: of its bytes."""

    path: Path
    lines: int
    sha256: str

    @classmethod
    def at(cls, path: Path) -> Log:
        """DataError where there is no such file."""
        if not path.is_file():
            raise DataError(f"{path}: there is no such file. Name a log with one JSON object a line.")
        if path.stat().st_size == 0:
            raise DataError(f"{path} is empty.")
        with path.open("rb") as file:
            blocks = iter(lambda: file.read(1 << 20), b"")
            lines, last = 0, b""
            for block in blocks:
                lines, last = lines + block.count(b"\n"), block
        return cls(path, lines + (not last.endswith(b"\n")), hash_bytes(path))

    @property
    def stem(self) -> str:
        """The beginning of the ids of all that comes from this log."""
        return f"history-{self.sha256[:8]}"


def ingest(log: Log, task: SqlTask, columns: ColumnMap, folder: Path, scheduler: Scheduler, progress: Progress) -> dict[str, Any]:
    """Write the rows that a log gives into `folder`, with a report; returns what report.json says.

    A folder that an earlier ingest filled is filled anew. DataError for a folder with other things in it, and for a log of which not one
    line can be read.
    """
    target = RunFolder(folder)
    _refuse_other_folder(folder)
    with target.lock():
        store = Store(folder / f"{TEMPORARY}scratch.sqlite")
        try:
            reader = Reader(store, task, columns)
            reader.read(log, progress)
            _judge(reader, task, scheduler, log, progress)
            for name in ("report.json", "report.md", *FILES):  # the report first: without it the folder is no ingested one
                target.file(name).unlink(missing_ok=True)
            made = Rows(store, reader.known, task, log.stem).write(folder)
            report = ingest_report.report(store, log.lines, made)
        finally:
            store.close()
            (folder / f"{TEMPORARY}scratch.sqlite").unlink(missing_ok=True)
        redact = reader.redact
        report = {
            "kind": ingest_report.KIND,
            "version": ingest_report.VERSION,
            "log": {"name": Redactor()(log.path.name), "sha256": log.sha256, "lines": log.lines},
            "task": {
                "name": task.name,
                "databases": {name: [hash_bytes(path) for path in paths] for name, paths in task.databases.items()},
            },
            "columns": {name: Redactor()(path) for name, path in columns.paths.items()},
            "unused_fields": reader.unused,
            "redacted": {kind: redact.counts[kind] for kind in sorted(redact.counts)},
            **report,
            "files": {name: hash_bytes(folder / name) for name in FILES},
        }
        target.write_text("report.md", ingest_report.markdown(report))
        target.write_json("report.json", report)
    return report


def _judge(reader: Reader, task: SqlTask, scheduler: Scheduler, log: Log, progress: Progress) -> None:
    store, known = reader.store, reader.known
    ingest_judge.hold_near_questions(store, known)
    with progress.task("corrections", None) as shown:
        ingest_judge.judge_corrections(store, known, task, scheduler, shown)
    with progress.task("answers", None) as shown:
        ingest_judge.judge_answers(store, known, task, scheduler, log.stem, shown)
    with progress.task("rows", store.count("SELECT COUNT(*) FROM lines")) as shown:
        decide(store, known, shown.advance)


def _refuse_other_folder(folder: Path) -> None:
    if folder.is_file():
        raise DataError(f"{folder} is a file; name a new folder with --out.")
    own = {*FILES, "report.json", "report.md"}
    strange = [path.name for path in folder.glob("*") if path.name not in own and not path.name.startswith(".")]
    if strange:
        raise DataError(f"{folder} holds other things ({', '.join(sorted(strange)[:3])}); name a new or an empty folder with --out.")


class Reader:
    """Reads a log into the scratch database, redacted. `unused`: names of the user's fields that nothing was read from."""

    def __init__(self, store: Store, task: SqlTask, columns: ColumnMap) -> None:
        self.store, self.task, self.columns = store, task, columns
        self.known, self.redact = Known(task), Redactor()
        self.unused: list[str] = []
        self._seen: set[str] = set()

    def read(self, log: Log, progress: Progress) -> None:
        """All lines. DataError where none of the first ones can be read."""
        number = broken = 0
        good = False
        with progress.task("lines", log.lines) as shown:
            for found in read_log(log.path, self.columns):
                number += 1
                if isinstance(found, Entry):
                    found = self._keep(found)
                    good = good or found is None
                if isinstance(found, Fault):
                    broken += 1
                    self.store.fault(found.line, "broken", found.reason, self._safe(found.detail))
                if not good and broken >= FIRST_LINES:
                    break
                shown.advance()
        if not good:
            self._raise_unreadable(log, number)

    def _raise_unreadable(self, log: Log, number: int) -> None:
        first = self.store.one("SELECT line, reason, detail FROM faults ORDER BY line LIMIT 1")
        if first is None:
            raise DataError(f"{log.path} has empty lines only.")
        why = f"{first['reason']}: {first['detail']}" if first["detail"] else first["reason"]
        raise DataError(
            f"{log.path}: not one of the first {number} lines can be read (line {first['line']}: {why}). A log has one JSON object a "
            "line with question and answer; where your fields have other names, give a column map with --columns."
        )

    def _safe(self, text: str) -> str:
        """Text of the log for a message: redacted before it is cut, so that no half of a key is left."""
        return Redactor()(text)[:LONGEST_DETAIL]

    def _keep(self, entry: Entry) -> Fault | None:
        """Put a line into the scratch database; the fault, where its database is not known."""
        database = entry.database or self.known.database_of(entry.question)
        names = list(self.task.databases)
        if database is None and len(names) > 1:
            return Fault(entry.line, "no database", f"the task has {len(names)}: name one in the field {self.columns.paths['database']}")
        database = database or names[0]
        if database not in self.task.databases:
            return Fault(entry.line, "unknown database", suggestion(database, names))
        self._note_unused(entry)
        group = self._group(entry, database)
        spoiled: list[str] = []
        texts = {name: self._answer(group, entry, name, spoiled) for name in ("answer", "correction", "retry")}
        self.store.line(
            number=entry.line,
            id=self.store.id_hash(entry.id),
            grp=group,
            **texts,
            retry_of=self.store.id_hash(entry.retry_of),
            thumb=entry.thumb,
            error=entry.error and self.redact(entry.error),
            spoiled=" and ".join(spoiled) or None,
        )
        return None

    def _note_unused(self, entry: Entry) -> None:
        for name in entry.unused:
            if len(self.unused) < MOST_FIELDS and name not in self._seen:
                self._seen.add(name)
                safe = self._safe(name)
                self.unused += [safe] if safe not in self.unused else []

    def _group(self, entry: Entry, database: str) -> int:
        """The group of the question, which is looked for among the task's questions before anything is taken out of it."""
        question = self.redact(entry.question)
        known = self.known.find(database, entry.question)
        named = self.known.examples.get(entry.id or "")
        held = None
        if known is not None and known.split in HELD_OUT:
            held = f"held out: it is a {known.split} question"
        elif named is not None and named.split in HELD_OUT:
            held = f"held out: its id is that of a {named.split} question"
        key = f"={known.id}" if known else ingest_judge.question_key(question)
        return self.store.group(database, key, question, known and known.id, held)

    def _answer(self, group: int, entry: Entry, name: str, spoiled: list[str]) -> int | None:
        """The answer in one field, as its query where it has one. None where there is none, or where redacting changed the query."""
        text = getattr(entry, name)
        if text is None:
            return None
        kept = self.redact(text)
        before, after = extract_sql(text), extract_sql(kept)
        if before != after:
            spoiled.append(name)
            return None
        return self.store.answer(group, after or kept, after is not None, entry.line, name == "correction")


def default_folder(log: Log, columns: ColumnMap, task: SqlTask, root: Path = Path("ingested")) -> Path:
    """ingested/<name of the log>-<ten digits over its bytes, the column map and the task>."""
    from prefkit.hashing import hash_value

    identity: Sequence[Any] = [log.sha256, dict(columns.paths), list(columns.up), list(columns.down), task.name]
    return root / f"{Redactor()(log.path.stem)}-{hash_value(identity)[:10]}"
