"""`prefkit datasets`: build or check the data of a task."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from prefkit.commands.arguments import Parser

ABOUT = "Build a dataset's splits and databases from its sources, or check it for faults (golds, style, counts, leakage)."
EXAMPLE = "prefkit datasets build sql-gen --to my-copy"


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "action", choices=("build", "check"), metavar="build|check", help="write it, or look for faults (exit code 1 where there are any)"
    )
    parser.add_argument("name", metavar="NAME", help="a shipped dataset, or a folder laid out like one")
    parser.add_argument(
        "--to", type=Path, metavar="DIR", help="build: where to (else the splits into the dataset's folder, the databases into the cache)"
    )


def run(options: Any) -> int:
    from prefkit.errors import DataError
    from prefkit.resources import dataset_path

    folder = Path(options.name) if (Path(options.name) / "databases").is_dir() else dataset_path(options.name)
    if options.action == "build":
        return _build(folder, options.to)
    if options.to is not None:
        raise DataError("--to says where a dataset is built; check takes none.")
    return _check(folder)


def _build(folder: Path, target: Path | None) -> int:
    from prefkit.errors import DataError
    from prefkit.resources import cache_dir
    from prefkit.tasks.sql_databases import built_databases
    from prefkit.tasks.sql_dataset import build

    if target is not None and target.exists() and not target.is_dir():
        raise DataError(f"{target} is a file; name a folder with --to.")
    databases = built_databases(folder, cache_dir())
    try:
        counts = build(folder, target)
    except PermissionError as error:
        raise DataError(f"{target or folder} cannot be written ({error.strerror}); name another folder with --to.") from error
    files = [path for paths in databases.values() for path in paths]
    where = files[0].parent
    if target is not None:
        where = target / "databases"
        where.mkdir(exist_ok=True)
        for path in files:
            shutil.copyfile(path, where / path.name)
    print(f"{', '.join(f'{count} {split}' for split, count in counts.items())} questions in {target or folder}")
    print(f"{len(databases)} databases, {len(files)} SQLite files in {where}")
    return 0


def _check(folder: Path) -> int:
    from prefkit.commands.terminal import shown
    from prefkit.resources import cache_dir
    from prefkit.tasks.sql_dataset_check import check

    faults = check(folder, cache_dir())
    for fault in faults:
        print(shown(fault))
    print(f"{folder.name}: {len(faults)} fault{'' if len(faults) == 1 else 's'}" if faults else f"{folder.name}: no faults")
    return 1 if faults else 0
