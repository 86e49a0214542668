"""Hashes of content: of values, of rows, of files. Timings are left out, so that two equal runs have equal hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

# What a machine measured, not what a stage made: another run of the same stage has other values here.
MEASURED = frozenset({"seconds", "wall_s", "cpu_s", "peak_mem", "cached", "started", "finished"})


def plain(value: Any) -> Any:
    """`value` as JSON knows it, for `json.dumps(default=plain)`: numpy scalars and arrays, paths and pydantic models.

    Raises TypeError for anything else, sets among them, because their order is not fixed.
    """
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Path):
        return value.as_posix()
    raise TypeError(f"a {type(value).__name__} has no canonical JSON form")


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces and ASCII only: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=plain)


def hash_value(value: Any) -> str:
    """SHA-256 (64 hex digits) of the canonical JSON of `value`. 1 and 1.0 are different values; a tuple is a list."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()


def hash_rows(rows: Iterable[Mapping[str, Any]], without: Iterable[str] = MEASURED) -> str:
    """SHA-256 over the rows in their order, without the columns named in `without`."""
    left_out = frozenset(without)
    digest = hashlib.sha256()
    for row in rows:
        kept = {key: value for key, value in row.items() if key not in left_out}
        digest.update(canonical_json(kept).encode("ascii") + b"\n")
    return digest.hexdigest()


def hash_file(path: str | Path) -> str:
    """SHA-256 of what a file says: of Parquet and JSON files the content without timings, of any other file the bytes."""
    path = Path(path)
    if path.suffix == ".parquet":
        return hash_rows(_parquet_rows(path))
    if path.suffix == ".json":
        try:
            return hash_value(_without_measured(json.loads(path.read_bytes())))
        except ValueError:
            pass  # not JSON in spite of its name: its bytes still have a hash
    return hash_bytes(path)


def hash_bytes(path: str | Path) -> str:
    """SHA-256 of the bytes of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _parquet_rows(path: Path) -> Iterable[dict[str, Any]]:
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=4096):
            yield from batch.to_pylist()


def _without_measured(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_measured(item) for key, item in value.items() if key not in MEASURED}
    if isinstance(value, list):
        return [_without_measured(item) for item in value]
    return value
