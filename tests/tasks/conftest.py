"""A small database in two data instances, and files of questions over it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

SCHEMA = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers(id), amount REAL, placed TEXT);
"""
ROWS = {
    "one": "INSERT INTO customers VALUES (1, 'Ann', 'Leeds'), (2, 'Bob', 'York'), (3, 'Cid', 'Leeds');"
    "INSERT INTO orders VALUES (1, 1, 10.5, '2024-01-02'), (2, 1, 20, '2024-05-02'), (3, 2, NULL, '2025-01-01');",
    "two": "INSERT INTO customers VALUES (1, 'Dora', 'Leeds'), (2, 'Eve', 'Hull');"
    "INSERT INTO orders VALUES (1, 2, 7.5, '2024-02-02'), (2, 2, 3, '2025-05-02'), (3, 1, NULL, '2025-02-01'), (4, 1, 99, '2025-03-01');",
}


@pytest.fixture
def databases(tmp_path: Path) -> list[Path]:
    """Two data instances of one schema."""
    paths = []
    for name, rows in ROWS.items():
        path = tmp_path / f"{name}.sqlite"
        connection = sqlite3.connect(path)
        connection.executescript(SCHEMA + rows)
        connection.close()
        paths.append(path)
    return paths


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a file below the test's folder: (name, text) -> path."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


QUESTIONS = [
    ("Who lives in Leeds?", "SELECT name FROM customers WHERE city = 'Leeds'"),
    ("How many customers are there?", "SELECT COUNT(*) FROM customers"),
    ("How many customers has each city?", "SELECT city, COUNT(*) FROM customers GROUP BY city"),
    ("What do all orders add up to?", "SELECT SUM(amount) FROM orders"),
    ("Which orders have no amount? Ids.", "SELECT id FROM orders WHERE amount IS NULL"),
    ("Amount of each order with the customer's name.",
     "SELECT customers.name, orders.amount FROM orders JOIN customers ON customers.id = orders.customer_id"),
    ("Orders placed in 2025: ids.", "SELECT id FROM orders WHERE strftime('%Y', placed) = '2025'"),
    ("The dearest order's id?", "SELECT id FROM orders ORDER BY amount DESC LIMIT 1"),
    ("All cities, each once.", "SELECT DISTINCT city FROM customers"),
    ("Average amount of an order.", "SELECT AVG(amount) FROM orders"),
]  # fmt: skip


@pytest.fixture
def questions_csv(written: Callable[[str, str], Path]) -> Path:
    """Ten questions as CSV, without splits and levels."""
    return written("questions.csv", "question,sql\n" + "".join(f'"{question}","{sql}"\n' for question, sql in QUESTIONS))
