"""A synthetic run folder whose truth is known, for the tests of the report."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from prefkit.evaluate.suites import evaluation, ledger
from prefkit.runfolder import RunFolder

K = 8
HOSTILE = "<script>alert('x')</script> | `code` **bold** [a](http://evil.example/x) \u202eesrever \x00 </pre></style> {{ 7*7 }} ```"
POLICIES = ("base", "references", "own_pairs", "calibrated")
# The chance that a first answer is right, and that one sample is, by policy.
CHANCES = {
    "test": {"base": (0.06, 0.02), "references": (0.44, 0.33), "own_pairs": (0.50, 0.38), "calibrated": (0.50, 0.47)},
    "unseen": {"base": (0.02, 0.01), "references": (0.20, 0.12), "own_pairs": (0.21, 0.13), "calibrated": (0.21, 0.16)},
}
SIZES = {"test": (120, 200), "unseen": (80, 150)}
DATABASES = {"test": ("shop", "hr", "support", "clinic", "bank", "events"), "unseen": ("hotel", "library")}
WRONG = (
    ("CRASH", "no such column: cutomers.nam"),
    ("CRASH", 'syntax error near "SELCT"'),
    ("WRONG", "wrong number of rows: 4, expected 7"),
    ("CRASH", "no such table: client"),
    ("WRONG", "wrong number of columns: 2, expected 1"),
    ("TIMEOUT", "time limit: steps"),
)
QUESTIONS = (
    "How many customers from Leeds placed an order in May 2024?",
    "List the names of employees who earn more than their department's average.",
    "Which three suppliers have the highest total value of open invoices?",
    "What share of tickets opened last quarter was closed within two days?",
    "Show every patient without an appointment in 2025, by last name.",
)
GOLDS = (
    "SELECT COUNT(DISTINCT o.customer_id) FROM orders AS o JOIN customers AS c ON c.id = o.customer_id "
    "WHERE c.city = 'Leeds' AND o.ordered_on BETWEEN '2024-05-01' AND '2024-05-31'",
    "SELECT e.name FROM employees AS e WHERE e.salary > (SELECT AVG(salary) FROM employees WHERE department_id = e.department_id)",
    "SELECT s.name FROM suppliers AS s JOIN invoices AS i ON i.supplier_id = s.id WHERE i.paid_on IS NULL "
    "GROUP BY s.id ORDER BY SUM(i.total) DESC LIMIT 3",
    "SELECT AVG(julianday(closed_on) - julianday(opened_on) <= 2) FROM tickets WHERE opened_on >= '2025-01-01'",
    "SELECT last_name FROM patients WHERE id NOT IN (SELECT patient_id FROM appointments WHERE day LIKE '2025-%') ORDER BY last_name",
)


def make_answers(policies: tuple[str, ...] = POLICIES, hostile: bool = False, frozen: bool = False) -> list[dict[str, Any]]:
    """Answers of every policy; ``frozen`` gives every policy the base model's answers, as training with learning rate 0 does."""
    rows = []
    for split, (count, _) in SIZES.items():
        for index in range(count):
            example = f"{split}-{index:03d}"
            chance = random.Random(example)
            hard, hits = chance.random(), [chance.random() for _ in range(K)]
            for policy in policies:
                greedy, sampled = CHANCES[split]["base" if frozen else policy]
                noise = random.Random(f"{example}/{'base' if frozen else policy}")
                right = hard + noise.gauss(0, 0.03) < greedy
                rows.append(_row(policy, split, example, index, "greedy", 0, right, noise, hostile))
                easy = min(0.98, sampled * (1.7 if hard < greedy else 0.3))
                rows += [_row(policy, split, example, index, "sample", k, hits[k] < easy, noise, hostile) for k in range(K)]
    return rows


def _row(
    policy: str, split: str, example: str, index: int, kind: str, k: int, right: bool, noise: random.Random, hostile: bool
) -> dict[str, Any]:
    names, gold = DATABASES[split], GOLDS[index % len(GOLDS)]
    status, reason = ("PASS", "same rows") if right else noise.choice(WRONG)
    sql = gold if right else gold.replace("SELECT", "SELCT", 1) if "syntax" in reason else gold.replace(" WHERE", " WHERE 1 = 0 AND", 1)
    question = QUESTIONS[index % len(QUESTIONS)]
    if hostile:
        question, sql, reason = f"{question} {HOSTILE}", f"{sql} {HOSTILE}", f"{reason} {HOSTILE}"
    return {
        "policy": policy, "split": split, "example_id": example, "database": names[index % len(names)], "level": 1 + index % 5,
        "question": question, "gold": gold, "kind": kind, "k": k, "completion": f"```sql\n{sql}\n```", "sql": sql,
        "status": status, "score": float(right), "reason": reason,
    }  # fmt: skip


FIGURES: dict[str, dict[str, Any]] = {
    "readiness": {"questions": 40, "verifier_calls": 160},
    "rollouts-0": {"prompts": 600, "answers": 4800, "tokens": 163_200, "right": 96, "prompts_with_right": 54, "mixed": 51,
                   "truncated": 212, "unique": 3904, "verifier_calls": 3904},
    "pairs-0": {"rows": 588, "pairs": 402, "model": 51, "reference": 537, "correction": 0,
                "dropped_identical": 9, "dropped_long": 3, "dropped_duplicate": 0},
    "warm_start-0": {"rows": 588, "steps": 111, "loss_first": 2.614, "loss_last": 0.418, "changed_share": 0.9981, "tokens": 402_100},
    "rollouts-1": {"prompts": 300, "answers": 2400, "tokens": 69_600, "right": 1012, "prompts_with_right": 231, "mixed": 188,
                   "truncated": 3, "unique": 1440, "verifier_calls": 1440},
    "corrections-1": {"trajectories": 20, "repaired": 5, "repaired_first_turn": 3, "closed_by_reference": 0, "open": 15, "repair_tries": 72,
                      "repair_tries_right": 7, "repaired_share": 0.25, "fresh_share": 0.4, "correction_rows": 5, "correction_pairs": 4,
                      "answers": 152, "duplicates": 40, "truncated": 2, "tokens": 3_100, "verifier_calls": 152},
    "pairs-1": {"rows": 376, "pairs": 301, "model": 364, "reference": 0, "correction": 12,
                "dropped_identical": 2, "dropped_long": 0, "dropped_duplicate": 5},
    "warm_start-1": {"rows": 376, "steps": 24, "loss_first": 0.731, "loss_last": 0.502, "changed_share": 0.9977, "tokens": 121_000},
    "select-warm": {"candidates": {"warm_start-0": 0.42, "warm_start-1": 0.47}, "chosen": "warm_start-1"},
    "calibrate": {"steps": 12, "reward_first": 0.41, "reward_last": 0.52, "kl_last": 0.0131, "groups_with_signal": 61, "tokens": 22_300,
                  "verifier_calls": 768},
    "select-final": {
        "candidates": {"step-6": 0.4375, "step-12": 0.4525}, "chosen": "step-12", "metric": "both", "questions": 60,
        "scores": {
            "step-6": {"greedy": 0.475, "samples": 0.4, "value": 0.4375}, "step-12": {"greedy": 0.465, "samples": 0.44, "value": 0.4525}
        },
    },
    "evaluate": {"verifier_calls": 7200, "tokens": 240_000},
}  # fmt: skip
SECONDS = (9.1, 171.3, 0.6, 312.4, 84.2, 21.7, 0.4, 96.3, 18.9, 187.6, 20.2, 204.8)
COSTS = {
    "references": {"seconds": 484.3, "tokens": 565_300, "verifier_calls": 3904},
    "own_pairs": {"seconds": 202.6, "tokens": 193_700, "verifier_calls": 1504},
    "calibrated": {"seconds": 207.8, "tokens": 22_300, "verifier_calls": 768},
}
RECIPE = """name: sql-gen
title: Questions in business language become SQL that runs
seed: 7
task:
  kind: sql
  dataset: sql-gen
"""


def make_run(folder: Path, answers: list[dict[str, Any]] | None = None, stages: bool = True, metrics: bool = True) -> RunFolder:
    """A run folder as a whole run leaves it; without ``stages`` or ``metrics`` as `prefkit evaluate` may leave it."""
    run = RunFolder(folder)
    rows = make_answers() if answers is None else answers
    with run.lock():
        run.write_text("recipe.yaml", RECIPE)
        run.describe(recipe="sql-gen")
        if stages:
            _write_stages(run)
        if metrics:
            _write_metrics(run)
        totals = {split: total for split, (_, total) in SIZES.items()}
        run.write_json("evaluation.json", evaluation(rows, totals, K, 1.0))
        run.write_json("ledger.json", ledger(rows, COSTS))
        run.write_rows("evaluation/answers.parquet", rows)
    return run


@pytest.fixture
def build_run(tmp_path: Path) -> Callable[..., RunFolder]:
    """A function that makes a run folder: ``build_run(answers=…, stages=True, metrics=True)``."""
    return partial(make_run, tmp_path / "sql-gen-3f2a9c")


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """One whole run for the tests that only read."""
    return make_run(tmp_path_factory.mktemp("runs") / "sql-gen-3f2a9c")


def _write_stages(run: RunFolder) -> None:
    for (stage, figures), seconds in zip(FIGURES.items(), SECONDS, strict=True):
        run.begin(stage, "0" * 64)
        run.finish(stage, "0" * 64, [], figures, seconds, seed=7)
    run.begin("report", "0" * 64)


def _write_metrics(run: RunFolder) -> None:
    noise = random.Random(3)
    for step in range(1, 445):
        run.log_metrics("warm_start-0", step, loss=0.4 + 2.2 * 0.985**step + noise.gauss(0, 0.05), grad_norm=1.0)
        if step % 74 == 0:
            share = 0.42 * (1 - 0.99**step)
            run.log_metrics("warm_start-0", step, validation_greedy=share, validation_samples=share * 0.8)
    for step in range(1, 25):
        run.log_metrics("warm_start-1", step, loss=0.73 - 0.009 * step + noise.gauss(0, 0.03), **{"rewards/accuracies": 0.5 + 0.015 * step})
    for step in range(1, 13):
        reward = 0.42 + 0.008 * step + noise.gauss(0, 0.03)
        run.log_metrics("calibrate", step, reward=reward, kl=0.0012 * step, frac_reward_zero_std=0.3 + noise.gauss(0, 0.05))
        if step % 6 == 0:
            run.log_metrics("select-final", step // 6, validation_greedy=0.47)
            run.log_metrics("calibrate", step, validation_greedy=0.47 + 0.001 * step, validation_samples=0.4 + 0.005 * step)
    run.log_metrics("calibrate", 13, reward=float("nan"), kl=float("inf"))


@pytest.fixture
def answers() -> list[dict[str, Any]]:
    """Answers in which training helped; each test has its own copy."""
    return make_answers()


@pytest.fixture
def hostile_answers() -> list[dict[str, Any]]:
    """The same with hostile questions, answers and reasons."""
    return make_answers(hostile=True)


@pytest.fixture
def frozen_answers() -> list[dict[str, Any]]:
    """Every policy answers as the base model does."""
    return make_answers(frozen=True)
