"""A trajectory: a wrong answer, what the verifier said of it, the answer after that, and so on to the answer that ends it.

| end       | what it says                                                                   | what it teaches                       |
|-----------|--------------------------------------------------------------------------------|---------------------------------------|
| repaired  | an answer of its last turn passed                                              | that answer, where its end was reached |
| reference | none did, and the gold stands in the place of the last answer (a round on references) | the gold                       |
| open      | none did                                                                       | nothing                               |

Only the last turn is ever a target: its tokens alone have labels. The wrong answers and the feedback before it are its prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prefkit.data.pairs import correction_pair
from prefkit.tasks.base import Example

Row = dict[str, Any]
Answer = tuple[Row, Row]
"""A rollout row and its verdict row."""
NO_LABEL = -100
"""What TRL and transformers take for a token without loss."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn. tries: all answers drawn in it (none in the first: they are the round's rollouts); answer: the one it goes on with."""

    answer: Answer
    tries: tuple[Answer, ...] = ()


@dataclass(slots=True)
class Trajectory:
    """Turns, the first of them a wrong answer. fresh: answers of the same model to the bare question, as many as it may have tries; the
    control. reference: the token ids of the gold, where it closes the trajectory."""

    example: Example
    turns: list[Turn]
    fresh: tuple[Answer, ...] = ()
    reference: list[int] | None = None

    @property
    def last(self) -> Turn:
        return self.turns[-1]

    @property
    def repaired(self) -> bool:
        return passed(self.last.answer)

    @property
    def goes_on(self) -> bool:
        """Whether there is something to say of its last answer, and an end after which to say it."""
        row, verdict = self.last.answer
        return verdict["score"] == 0 and bool(verdict["feedback"]) and row["ended"]

    @property
    def end(self) -> str:
        return "repaired" if self.repaired else "open" if self.reference is None else "reference"

    @property
    def target(self) -> tuple[str, list[int]] | None:
        """The text and token ids that it teaches; None where it teaches nothing."""
        row = self.last.answer[0]
        if self.end == "reference":
            return self.example.golds[0], self.reference or []
        return (row["completion"], row["completion_ids"]) if self.repaired and row["ended"] else None

    def add(self, tries: Sequence[Answer]) -> None:
        """The next turn: it goes on with a right answer, one that ended before one that did not; else with the wrong one that was given
        most often."""
        right = [one for one in tries if passed(one)]
        finished = [one for one in right if one[0]["ended"]]
        answer = next(iter((*finished, *right)), None) or most_frequent_failure(tries) or tries[0]
        self.turns.append(Turn(answer, tuple(tries)))

    def row(self) -> Row:
        """The row of trajectories/round-N.parquet: `prompt` and `completion` as conversations, the same as `input_ids` and `labels`, and
        the receipts. `completion` is null where it teaches nothing; all its labels are then -100."""
        row, target = self.last.answer[0], self.target
        ids = row["completion_ids"] if target is None else target[1]
        ends = "reference" if self.end == "reference" else row["id"]
        return {
            "id": f"{self.turns[0].answer[0]['id']}~{ends}",
            "example_id": self.example.id,
            "database": self.example.database,
            "level": self.example.level,
            "prompt": row["messages"],
            "completion": None if target is None else [{"role": "assistant", "content": target[0]}],
            "input_ids": [*row["prompt_ids"], *ids],
            "labels": [*[NO_LABEL] * len(row["prompt_ids"]), *([NO_LABEL] * len(ids) if target is None else ids)],
            "turns": [self._turn_row(turn) for turn in self.turns],
            "fresh": [_receipt(one) for one in self.fresh],
            "end": self.end,
        }

    def _turn_row(self, turn: Turn) -> Row:
        row, verdict = turn.answer
        shared: Row = {"tries": [_receipt(one) for one in turn.tries], "train": turn is self.last and self.target is not None}
        if turn is self.last and self.end == "reference":
            gold = {"content": self.example.golds[0], "rollout": None, "verdict": None, "status": "PASS", "reason": None, "feedback": None}
            return {**gold, **shared}
        said = {name: verdict[name] for name in ("status", "reason", "feedback")}
        return {"content": row["completion"], "rollout": row["id"], "verdict": verdict["key"], **said, **shared}

    def pair(self) -> Row | None:
        """The training row: what the trajectory teaches, over a wrong answer to the same feedback where there is one that ended; None where
        it teaches nothing."""
        if self.target is None:
            return None
        wrong = next((one for one in self.last.tries if one[1]["score"] == 0 and one[0]["ended"]), None)
        if self.end != "reference":
            return correction_pair(self.example, self.last.answer, wrong)
        text, ids = self.target
        gold = {**self.last.answer[0], "id": None, "completion": text, "completion_ids": ids}
        return {**correction_pair(self.example, (gold, None), wrong), "id": f"{self.row()['id']}>{wrong[0]['id'] if wrong else 'none'}"}


def passed(answer: Answer) -> bool:
    """Whether the verifier passed it."""
    return answer[1]["score"] == 1


def most_frequent_failure(answers: Sequence[Answer]) -> Answer | None:
    """The wrong answer that was given most often, the first of equals, among those that ended and that the verifier has something to say
    of; None where there is none."""
    wrong = [one for one in answers if one[1]["score"] == 0 and one[1]["feedback"] and one[0]["ended"]]
    times = Counter(row["completion"] for row, _ in wrong)
    return max(wrong, key=lambda one: (times[one[0]["completion"]], -one[0]["k"]), default=None)


def _receipt(answer: Answer) -> Row:
    row, verdict = answer
    return {"rollout": row["id"], "verdict": verdict["key"], "score": verdict["score"]}


def figures(rows: Sequence[Row], pairs: Sequence[Row]) -> Row:
    """The counts a stage reports. rows, pairs: what it writes of its trajectories (`Trajectory.row`, `Trajectory.pair`).

    `repaired_share`: trajectories whose question was solved in their turns; `fresh_share`: those whose question as many fresh answers
    solved (at least one of them right, as in a repair).
    """
    ends = Counter(row["end"] for row in rows)
    count = len(rows)
    scores = [one["score"] for row in rows for turn in row["turns"] for one in turn["tries"] if one["score"] is not None]
    return {
        "trajectories": count,
        "repaired": ends["repaired"],
        "repaired_first_turn": sum(row["end"] == "repaired" and len(row["turns"]) == 2 for row in rows),
        "closed_by_reference": ends["reference"],
        "open": ends["open"],
        "repair_tries": len(scores),
        "repair_tries_right": scores.count(1),
        "repaired_share": round(ends["repaired"] / count, 4) if count else None,
        "fresh_share": round(sum(any(one["score"] == 1 for one in row["fresh"]) for row in rows) / count, 4) if count else None,
        "correction_rows": len(pairs),
        "correction_pairs": sum(row["rejected"] is not None for row in pairs),
    }
