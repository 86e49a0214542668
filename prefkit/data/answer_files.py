"""Answers from elsewhere, judged like a model's own: JSON lines of {"id": a question of the task, "answers": [text…]}."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefkit.data.rollouts import verdict_row
from prefkit.errors import DataError
from prefkit.names import nearest
from prefkit.tasks.base import Example, Task
from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]
MOST_SHOWN = 10


def read_answers(path: Path, known: Mapping[str, Example]) -> dict[str, list[str]]:
    """Question's id -> its answers, in the order of the file. `known`: the task's questions by id.

    Raises DataError that lists the faults with their lines: nothing of a file with a fault is judged.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text (byte {error.start}).") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); --answers takes a file of JSON lines.") from error
    answers: dict[str, list[str]] = {}
    faults = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            name, given = _answers_of(line, known)
            if name in answers:
                raise ValueError(f"the question {name} has answers on an earlier line; give all of them in one list")
            answers[name] = given
        except ValueError as error:
            faults.append(f"{path}, line {number}: {error}")
    if faults:
        more = [f"and {len(faults) - MOST_SHOWN} more"] if len(faults) > MOST_SHOWN else []
        raise DataError("\n  ".join([f"{path} has {len(faults)} faults:", *faults[:MOST_SHOWN], *more]) if len(faults) > 1 else faults[0])
    if not answers:
        raise DataError(f'{path} has no answers: give it lines like {{"id": "{next(iter(known), "q1")}", "answers": ["SELECT …"]}}.')
    return answers


def _answers_of(line: str, known: Mapping[str, Example]) -> tuple[str, list[str]]:
    """(id, answers) of one line. Raises ValueError with what is wrong and what is expected."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError('expected an object like {"id": …, "answers": […]}')
    unknown = sorted(set(value) - {"id", "answers"})
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; a line has id and answers")
    name, given = value.get("id"), value.get("answers")
    if not isinstance(name, str) or name not in known:
        close = nearest(name, known) if isinstance(name, str) else []
        raise ValueError(f"the task has no question {name!r}" + (f"; did you mean {' or '.join(close)}?" if close else ""))
    if not isinstance(given, list) or not given or not all(isinstance(answer, str) for answer in given):
        raise ValueError("answers must be a list of one or more texts")
    # A lone surrogate, which JSON can escape, cannot stand in a file: it becomes a question mark, as any byte that is no text.
    return name, [answer.encode("utf-8", "replace").decode("utf-8") for answer in given]


def judged(
    name: str, answers: Mapping[str, list[str]], task: Task, known: Mapping[str, Example], scheduler: Scheduler
) -> tuple[list, list]:
    """Rollout rows and verdict rows of answers from elsewhere, as those of a model; tokens and likelihoods are not known and left empty."""
    rows, checks = [], []
    for question, given in answers.items():
        example = known[question]
        for k, text in enumerate(given):
            rows.append(
                {
                    "id": f"ready/{question}/{k}", "example_id": question, "split": example.split, "database": example.database,
                    "level": example.level, "messages": task.prompt(example), "prompt_ids": [], "completion": text, "completion_ids": [],
                    "logprobs": [], "ended": True, "k": k, "temperature": None, "seed": None, "model": name, "turn": 0, "parent": None,
                }
            )  # fmt: skip
            checks.append(task.check(example, text, id=rows[-1]["id"]))
    return rows, [verdict_row(verdict) for verdict in scheduler.verify(checks)]
