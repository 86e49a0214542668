"""Write the rows of a database as SQL text: `python make.py NAME` -> databases/NAME/rows-1.sql and rows-2.sql.

Each database has a generator beside this file, `NAME.py`, with `rows(rng, instance)`. The SQL text is what the dataset ships
and what everything else reads; the generators are kept so that a reader can see how the rows came to be.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path

HERE = Path(__file__).parent


def literal(value: object) -> str:
    """A Python value as an SQL literal."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def statements(tables: dict[str, list[tuple]], rows_each: int = 50):
    """INSERT statements of at most `rows_each` rows, one row a line, in the order given."""
    for table, rows in tables.items():
        for start in range(0, len(rows), rows_each):
            lines = ("(" + ", ".join(map(literal, row)) + ")" for row in rows[start : start + rows_each])
            yield f"INSERT INTO {table} VALUES\n" + ",\n".join(lines) + ";\n"


def main(names: list[str]) -> None:
    for name in names or sorted(path.stem for path in HERE.glob("*.py") if path.stem != "make"):
        spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for instance in (1, 2):
            tables = module.rows(random.Random(f"{name}-{instance}"), instance)
            target = HERE.parent / "databases" / name / f"rows-{instance}.sql"
            target.write_text("".join(statements(tables)))
            print(f"{target.name} of {name}: {sum(map(len, tables.values()))} rows in {len(tables)} tables")


if __name__ == "__main__":
    main(sys.argv[1:])
