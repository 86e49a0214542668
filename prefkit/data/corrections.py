"""Corrections: wrong answers get another turn with what the verifier said of them (never the gold), up to N turns, until one passes.

The control is drawn beside them: as many fresh answers of the same model to the same questions, without the wrong answer and without
feedback. A repair is worth something only where it beats another try.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from prefkit.data.rollouts import Request, Row, grouped
from prefkit.data.trajectories import Answer, Trajectory, Turn, most_frequent_failure
from prefkit.tasks.base import Example, Task

Ask = Callable[[str, list[Request]], tuple[list[Row], list[Row]]]
"""(a name for the requests, the requests) -> rollouts and verdicts: `tries` answers to each."""


def failures(examples: Sequence[Example], rollouts: Sequence[Row], verdicts: Sequence[Row]) -> list[Trajectory]:
    """A trajectory for each question with a wrong answer that can be spoken of, begun by the one the model gave most often."""
    groups = grouped(rollouts, verdicts)
    begun = [(example, most_frequent_failure(groups.get(example.id, []))) for example in examples]
    return [Trajectory(example, [Turn(answer)]) for example, answer in begun if answer is not None]


def correct(task: Task, trajectories: Sequence[Trajectory], turns: int, ask: Ask) -> None:
    """Give the trajectories further turns, at most `turns`, each only to those whose last answer failed."""
    for number in range(1, turns + 1):
        waiting = [one for one in trajectories if one.goes_on]
        if not waiting:
            return
        groups = _by_question(*ask(f"turn-{number}", [_next_turn(task, one, number) for one in waiting]))
        for one in waiting:
            one.add(groups[one.example.id])


def draw_fresh(task: Task, trajectories: Sequence[Trajectory], ask: Ask) -> None:
    """Give the trajectories their control: answers to the bare question, as many as there are tries in all turns."""
    requests = [Request(f"{one.example.id}/fresh", one.example, task.prompt(one.example)) for one in trajectories]
    groups = _by_question(*ask("fresh", requests))
    for one in trajectories:
        one.fresh = tuple(groups[one.example.id])


def close_with_references(trajectories: Iterable[Trajectory], tokenize: Callable[[list[Row]], list[Row]]) -> None:
    """Let the gold stand in the place of the last answer where no repair passed. `tokenize`: see `pairs.Tokenize`."""
    if open_ones := unsolved(trajectories):
        rows = tokenize([{"messages": one.last.answer[0]["messages"], "answers": [one.example.golds[0]]} for one in open_ones])
        for one, row in zip(open_ones, rows, strict=True):
            one.reference = row["answer_ids"][0]


def unsolved(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Those in which a gold may stand in the place of the last answer."""
    return [one for one in trajectories if not one.repaired and len(one.turns) > 1]


def replayed(
    examples: Sequence[Example], first: tuple[Sequence[Row], Sequence[Row]], later: tuple[Sequence[Row], Sequence[Row]]
) -> list[Trajectory]:
    """The trajectories that the stage had in hand, made again from the rollouts and verdicts of the round (`first`) and of the stage
    (`later`). Without references."""
    found = failures(examples, *first)
    answers: dict[tuple[str, int], list[Answer]] = defaultdict(list)
    for row, verdict in zip(*later, strict=True):
        answers[row["example_id"], row["turn"]].append((row, verdict))
    for one in found:
        while one.goes_on and (tries := answers.get((one.example.id, len(one.turns)))):
            one.add(tries)
        one.fresh = tuple(answers.get((one.example.id, 0), ()))
    return found


def _next_turn(task: Task, trajectory: Trajectory, number: int) -> Request:
    row, verdict = trajectory.last.answer
    messages = task.correction_prompt(row["messages"], row["completion"], verdict["feedback"])
    return Request(f"{trajectory.example.id}/turn-{number}", trajectory.example, messages, turn=number, parent=row["id"])


def _by_question(rollouts: Sequence[Row], verdicts: Sequence[Row]) -> dict[str, list[Answer]]:
    return grouped(rollouts, verdicts)
