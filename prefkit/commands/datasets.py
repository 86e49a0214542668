"""`prefkit datasets`: build or check the data of a task, or derive a second data instance of a database."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from prefkit.commands.arguments import Parser, share, whole

ABOUT = (
    "Build a dataset's splits and databases from its sources, or check it for faults (golds, style, counts, leakage). "
    "Or derive a second data instance of your own SQLite file: rows sampled with keys intact, values shuffled within columns."
)
EXAMPLE = "prefkit datasets build sql-gen --to my-copy"


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "action",
        choices=("build", "check", "instance"),
        metavar="build|check|instance",
        help="write it, look for faults (exit code 1 where there are any), or derive a second data instance",
    )
    parser.add_argument("name", metavar="NAME|FILE", help="a shipped dataset, or a folder laid out like one; instance: an SQLite file")
    parser.add_argument(
        "--to", type=Path, metavar="DIR", help="build: where to (else the splits into the dataset's folder, the databases into the cache)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="instance: the new file (else NAME-2 in the working folder)")
    parser.add_argument("--share", type=share, metavar="S", help="instance: the least part of each table's rows that is kept (0.7)")
    parser.add_argument("--seed", type=whole(0), metavar="N", help="instance: seed of the sample and the shuffle (0)")


def run(options: Any) -> int:
    from prefkit.errors import DataError
    from prefkit.resources import dataset_path

    taken = {"build": ("to",), "check": (), "instance": ("out", "share", "seed")}[options.action]
    for name in ("to", "out", "share", "seed"):
        if name not in taken and getattr(options, name) is not None:
            raise DataError(f"--{name} is no option of datasets {options.action}; `prefkit datasets --help` says what it takes.")
    if options.action == "instance":
        return _instance(Path(options.name), options)
    folder = Path(options.name) if (Path(options.name) / "databases").is_dir() else dataset_path(options.name)
    return _build(folder, options.to) if options.action == "build" else _check(folder)


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


def _instance(source: Path, options: Any) -> int:
    from prefkit.commands.terminal import console, shown, table
    from prefkit.data.instance import SHARE, derive_instance

    target = options.out or Path(f"{source.stem}-2{source.suffix}")
    made = derive_instance(source, target, options.share or SHARE, options.seed or 0)
    rows = [
        [
            shown(one.name),
            str(one.before),
            str(one.after),
            ", ".join(" + ".join(map(shown, group)) for group in one.shuffled),
            ", ".join(map(shown, one.kept)),
        ]
        for one in made
    ]
    console().print(table(["table", "rows", "kept", "shuffled", "as it was"], rows, right=(1, 2)))
    print()
    for one in made:
        if one.orphans:
            print(f"{shown(one.name)}: {one.orphans} of the rows left out refer to rows that are not there")
        if one.problem:
            print(f"{shown(one.name)}: sampled only, because shuffled values would break a constraint ({shown(one.problem)})")
    print(f"{shown(target)}: keys and pages checked; {shown(source)} is as it was")
    return 0
