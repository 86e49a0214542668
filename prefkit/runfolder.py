"""Where every artifact of a run lives: files, the manifest with their hashes, the lock, and what a resumed run may skip."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .errors import DataError, RunError
from .files import remove, remove_temporaries, replacing, replacing_folder, sync, write_bytes, write_text
from .hashing import MEASURED, hash_bytes, hash_file, hash_rows, hash_value, plain

__all__ = ["MEASURED", "RunFolder", "hash_bytes", "hash_file", "hash_rows", "hash_value", "run_path"]

VERSIONED = ("prefkit", "torch", "transformers", "trl", "peft", "accelerate", "datasets", "bitsandbytes", "pyarrow", "sqlglot", "scipy")


class RunFolder:
    """The folder of one run. One process writes to it at a time (`lock`); any number may read.

    Paths of files are given relative to the folder, with `/`. Files appear whole or not at all.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @classmethod
    def existing(cls, path: str | Path) -> RunFolder:
        """The run folder at `path`; RunError where that is none."""
        run = cls(path)
        if not (run.path / "manifest.json").is_file():
            siblings = sorted(str(found.parent) for found in run.path.parent.glob("*/manifest.json"))
            there = f" Runs there: {', '.join(siblings)}." if siblings else " `prefkit recipe NAME` makes one below runs/."
            raise RunError(f"{run.path} is no run folder: it has no manifest.json.{there}")
        return run

    def file(self, rel: str) -> Path:
        """The path of a file in this folder. ValueError where `rel` leads out of it."""
        parts = Path(rel).parts
        if not parts or Path(rel).is_absolute() or ".." in parts:
            raise ValueError(f"{rel!r} is no path inside a run folder")
        return self.path.joinpath(*parts)

    # One writer

    @contextlib.contextmanager
    def lock(self) -> Iterator[RunFolder]:
        """Hold the folder for writing. RunError with the other's process id where another process, or this one, holds it already.

        The lock is the operating system's: it ends with the process, however that ends. What a killed writer left half-written is removed.
        """
        import fcntl

        self.path.mkdir(parents=True, exist_ok=True)
        owner = os.getpid()
        descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
                raise RunError(
                    f"{self.path} is in use by process {holder}. Wait until it ends, or stop it with `kill {holder}` and come back "
                    f"with --resume, or begin another run with --fresh."
                ) from error
            _held.add(descriptor)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            remove_temporaries(self.path)
            yield self
        finally:
            if os.getpid() == owner:
                _held.discard(descriptor)
                os.close(descriptor)

    # The manifest

    @property
    def manifest(self) -> dict[str, Any]:
        """What stands in manifest.json now; a new one where there is none yet. RunError where it cannot be read."""
        file = self.path / "manifest.json"
        try:
            manifest = json.loads(file.read_bytes())
        except FileNotFoundError:
            return {"version": 1, "recipe": None, "created": _now(), "prefkit": versions()["prefkit"], "stages": {}}
        except ValueError as error:
            raise RunError(f"{file} cannot be read ({error}). Put back a copy of it, or begin another run with --fresh.") from error
        if not isinstance(manifest, dict) or manifest.get("version") != 1 or not isinstance(manifest.get("stages"), dict):
            raise RunError(f"{file} is no manifest of this version of prefkit (version 1). Begin another run with --fresh.")
        return manifest

    def describe(self, **values: Any) -> None:
        """Put values at the top of the manifest, such as `recipe="sql-gen"`. The stages are left as they are."""
        self.write_json("manifest.json", {**self.manifest, **values})

    def is_done(self, stage: str, inputs: str) -> bool:
        """Whether `stage` ended with these `inputs` (a hash) and every file that it wrote is there unchanged."""
        entry = self.manifest["stages"].get(stage)
        if not entry or entry.get("status") != "done" or entry.get("inputs") != inputs:
            return False
        return all(self._is_as_written(rel, written) for rel, written in entry["files"].items())

    def unfinished(self, stage: str, inputs: str) -> bool:
        """Whether `stage` was begun with these same `inputs` and never finished, so that its checkpoints may be continued."""
        entry = self.manifest["stages"].get(stage) or {}
        return entry.get("status") == "begun" and entry.get("inputs") == inputs

    def begin(self, stage: str, inputs: str, keep_steps: int | None = None, scratch: Iterable[str] = ()) -> None:
        """Note that `stage` starts. Its entry of an earlier time is replaced; its metrics and the files and folders in `scratch`
        (checkpoints) are removed.

        `keep_steps`: a stage that continues from a checkpoint keeps its metrics up to and including this step, and its scratch.
        """
        # The old entry goes first and the new one comes last: a kill in between leaves a stage that is neither done nor to be continued.
        self._set_entry(stage, {"status": "clearing", "inputs": inputs})
        self._supersede_metrics(stage, keep_steps)
        if keep_steps is None:
            for rel in scratch:
                remove(self.file(rel))
        self._set_entry(stage, {"status": "begun", "inputs": inputs, "started": _now()})
        self.event("begin", stage=stage)

    def finish(
        self, stage: str, inputs: str, outputs: Iterable[str], figures: Mapping[str, Any], seconds: float, seed: int | None = None
    ) -> dict[str, Any]:
        """Note that `stage` is done, with the hashes of each file in `outputs` (a folder stands for all files in it): in the entry's
        `outputs` of the content without timings, which equal runs share; in its `files` of the bytes, which say whether a file was changed.

        `figures` are what the stage counted, such as verifier calls and tokens; `seconds` is what it took. Returns the manifest entry.
        RunError where an output is missing: a stage without its files is not done.
        """
        files = [found for rel in outputs for found in self._files(rel)]
        entry = {
            "status": "done",
            "inputs": inputs,
            "outputs": {rel: hash_file(self.file(rel)) for rel in files},
            "files": {rel: {"size": self.file(rel).stat().st_size, "sha256": hash_bytes(self.file(rel))} for rel in files},
            "seed": seed,
            "versions": dict(versions()),
            "seconds": round(float(seconds), 3),
            "figures": dict(figures),
            "finished": _now(),
        }
        if lines := self.read_metrics(stage):
            entry["metrics"] = {"lines": len(lines), "sha256": hash_value(lines)}
        for record in (self.path / "metrics.jsonl", self.path / "events.jsonl"):
            if record.is_file():
                sync(record)
        self._set_entry(stage, entry)
        self.event("done", stage=stage, seconds=entry["seconds"])
        return entry

    def _set_entry(self, stage: str, entry: Mapping[str, Any]) -> None:
        manifest = self.manifest
        self.write_json("manifest.json", {**manifest, "stages": {**manifest["stages"], stage: entry}})

    def _is_as_written(self, rel: str, written: Mapping[str, Any]) -> bool:
        file = self.file(rel)
        return file.is_file() and file.stat().st_size == written["size"] and hash_bytes(file) == written["sha256"]

    def _files(self, rel: str) -> list[str]:
        path = self.file(rel)
        found = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        missing = [file for file in found if not file.is_file()]
        if missing or not found:
            raise RunError(f"a stage ended without its output {path}. Run the recipe again with --resume.")
        return [file.relative_to(self.path).as_posix() for file in found]

    # Files

    def write_json(self, rel: str, value: Any) -> Path:
        """Write `value` as JSON. ValueError for NaN and infinity, which JSON does not know."""
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=plain) + "\n"
        # A lone surrogate out of a broken answer is written as its JSON escape.
        write_bytes(self.file(rel), text.encode("utf-8", "backslashreplace"))
        return self.file(rel)

    def read_json(self, rel: str) -> Any:
        """The value in a JSON file of the run; RunError where it is missing or broken."""
        try:
            return json.loads(self.file(rel).read_bytes())
        except FileNotFoundError as error:
            raise RunError(f"{self.file(rel)} is missing: the stage that writes it has not run. Run the recipe with --resume.") from error
        except ValueError as error:
            raise RunError(f"{self.file(rel)} is broken ({error}). Delete it and run the recipe with --resume.") from error

    def write_text(self, rel: str, text: str) -> Path:
        """Write `text` as UTF-8."""
        write_text(self.file(rel), text)
        return self.file(rel)

    def write_rows(self, rel: str, rows: Iterable[Mapping[str, Any]], types: Mapping[str, Any] | None = None) -> Path:
        """Write rows as Parquet. The columns are those of all rows together; a row without one has None there.

        `types`: column -> pyarrow type; these columns are there in any case and come first (see data/columns.py). The type of any other is
        that of its values.

        DataError where a column mixes types. A dictionary with free keys becomes a struct with the keys of all rows: give it as JSON text.
        """
        import pyarrow
        import pyarrow.parquet as parquet

        rows = list(rows)
        columns: dict[str, Any] = {}
        known = dict(types or {})
        for name in dict.fromkeys((*known, *(key for row in rows for key in row))):
            values = [row.get(name) for row in rows]
            if all(value is None or value == {} for value in values):
                values = [None] * len(values)  # Parquet has no struct without fields
            try:
                columns[name] = pyarrow.array(values, type=known.get(name))
            except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
                raise DataError(f"{self.file(rel)}: the column {name} cannot be written: {error}. Give all its values one type.") from error
        table = pyarrow.table(columns)
        with replacing(self.file(rel)) as temporary, parquet.ParquetWriter(temporary, table.schema) as writer:
            if rows:  # a group of no rows is one that Hugging Face's datasets cannot read
                writer.write_table(table)
        return self.file(rel)

    def read_rows(self, rel: str) -> list[dict[str, Any]]:
        """The rows of a Parquet file of the run; RunError where it is missing or broken."""
        import pyarrow
        import pyarrow.parquet as parquet

        try:
            return parquet.ParquetFile(self.file(rel)).read().to_pylist()
        except FileNotFoundError as error:
            raise RunError(f"{self.file(rel)} is missing: the stage that writes it has not run. Run the recipe with --resume.") from error
        except pyarrow.ArrowException as error:
            raise RunError(f"{self.file(rel)} is broken ({error}). Delete it and run the recipe with --resume.") from error

    def new_folder(self, rel: str) -> contextlib.AbstractContextManager[Path]:
        """A context manager with an empty folder to fill, which takes the place of the folder `rel` at its end."""
        return replacing_folder(self.file(rel))

    # Lines

    def log_metrics(self, stage: str, step: int, **values: Any) -> None:
        """Append one line to metrics.jsonl, the record of every curve. NaN and infinity become null and are named in `not_finite`."""
        not_finite = [name for name, value in values.items() if isinstance(value, float) and not abs(value) < float("inf")]
        row = {"stage": stage, "step": step, **values, **dict.fromkeys(not_finite)}
        self._append("metrics.jsonl", {**row, "not_finite": not_finite} if not_finite else row)

    def event(self, kind: str, **values: Any) -> None:
        """Append one line to events.jsonl: what happened and when."""
        self._append("events.jsonl", {"time": _now(), "kind": kind, **values})

    def read_metrics(self, stage: str | None = None) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, of one stage or of all."""
        return [row for row in self._lines("metrics.jsonl") if stage in (None, row.get("stage"))]

    def read_events(self) -> list[dict[str, Any]]:
        """The lines of events.jsonl."""
        return self._lines("events.jsonl")

    def _append(self, rel: str, row: Mapping[str, Any]) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        line = json.dumps(row, ensure_ascii=True, allow_nan=False, default=plain) + "\n"
        descriptor = os.open(self.path / rel, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            _drop_torn_tail(descriptor)
            os.write(descriptor, line.encode("ascii"))
        finally:
            os.close(descriptor)

    def _lines(self, rel: str) -> list[dict[str, Any]]:
        try:
            data = (self.path / rel).read_bytes()
        except FileNotFoundError:
            return []
        rows = []
        # What follows the last line end is the torn line of a killed writer, or a line that is being written.
        for number, line in enumerate(data.split(b"\n")[:-1], start=1):
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise RunError(f"{self.path / rel}:{number}: broken line ({error}). Delete this line and try again.") from error
        return rows

    def _supersede_metrics(self, stage: str, keep_steps: int | None) -> None:
        rows = self._lines("metrics.jsonl")
        kept = [row for row in rows if row.get("stage") != stage or (keep_steps is not None and row.get("step", 0) <= keep_steps)]
        if len(kept) < len(rows):
            write_text(self.path / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in kept))


def run_path(name: str, root: str | Path = "runs", fresh: bool = False) -> Path:
    """The folder of the run `name` below `root`: the newest there is, or with `fresh` the next one (`name-2`, `name-3`, …)."""
    pattern = re.compile(rf"{re.escape(name)}(?:-(\d+))?")
    found = [match for path in Path(root).glob(f"{name}*") if path.is_dir() and (match := pattern.fullmatch(path.name))]
    newest = max((int(match[1] or 1) for match in found), default=0)
    number = newest + 1 if fresh else max(newest, 1)
    return Path(root) / (name if number == 1 else f"{name}-{number}")


@functools.cache
def versions() -> dict[str, str]:
    """The versions of Python and of the packages that a result depends on, read without importing them."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _drop_torn_tail(descriptor: int) -> None:
    """Cut a file after its last line end. What a killed writer left there is no line, and the next line must not be glued to it."""
    end = os.fstat(descriptor).st_size
    if end == 0 or os.pread(descriptor, 1, end - 1) == b"\n":
        return
    position = end
    while position > 0:
        start = max(0, position - 65536)
        found = os.pread(descriptor, position - start, start).rfind(b"\n")
        if found >= 0:
            os.ftruncate(descriptor, start + found + 1)
            return
        position = start
    os.ftruncate(descriptor, 0)


# A forked child shares the lock of its parent and would hold it past the parent's death: each child closes its copy.
_held: set[int] = set()


def _close_held() -> None:
    for descriptor in _held:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_held)
