"""Wrong answers that are nearly right: a right answer with one part of its query changed, executed, and used where it was found wrong.

A changed query often gives the right rows all the same, or does not run. Both are counted and neither is used: what passes is right, and
what crashes is told apart without reading the question. All that were executed are kept as rollouts with verdicts, so that each can be
executed again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from prefkit.data.mutate import Mutation, mutations
from prefkit.data.pairs import Draft, Side, Tokenize
from prefkit.data.rollouts import Request, Sampling, rollout_row, verdict_row
from prefkit.tasks.sql import SqlTask
from prefkit.tasks.sql_columns import Columns
from prefkit.verify.extract import extract_sql
from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]

TRIES = 3
"""Changed answers that are executed for each one that is wanted, at most."""
MODEL = "mutation"
RESULTS = ("wrong", "passed", "failed", "not_judged")
"""What becomes of a changed answer; only `wrong` is of use."""


class HardNegatives:
    """Fills drafts of pairs with changed answers. `rollouts` and `verdicts` are all that were executed, `counts` what became of them.

    stage: first part of the ids of its rollouts. most: changed answers of one question that become rejected sides, at most.
    """

    def __init__(self, stage: str, task: SqlTask, scheduler: Scheduler, tokenize: Tokenize, most: int, seed: int) -> None:
        self.stage, self.task, self.scheduler, self.tokenize, self.most, self.seed = stage, task, scheduler, tokenize, most, seed
        self._columns = {name: Columns(paths) for name, paths in task.databases.items()}
        self.rollouts: list[Row] = []
        self.verdicts: list[Row] = []
        self._impossible = 0

    @property
    def counts(self) -> Row:
        """Executed mutations by what came out, in all and by name."""
        return {**figures(self.rollouts, self.verdicts), "mutations_impossible": self._impossible}

    def fill(self, drafts: Sequence[Draft], per_prompt: int) -> None:
        """Give each draft with fewer than `per_prompt` pairs changed forms of its first right answer that were found wrong."""
        wanted = [(draft, min(self.most, per_prompt - draft.pairs)) for draft in drafts if draft.pairs < per_prompt]
        tried = [(draft, places, self._tries(draft, places * TRIES)) for draft, places in wanted]
        tried = [(draft, places, found) for draft, places, found in tried if found]
        sides = self._executed([(draft, found) for draft, _, found in tried])
        for (draft, places, _), wrong in zip(tried, sides, strict=True):
            chosen = draft.sides[0][0]
            if wrong:
                draft.sides = [both for both in draft.sides if both[1] is not None]
                draft.sides += [(chosen, rejected) for rejected in wrong[:places]]

    def _tries(self, draft: Draft, most: int) -> list[tuple[Mutation, str]]:
        """At most `most` changed forms of the draft's first right answer, each with the whole answer around it as it was."""
        answer = draft.sides[0][0].text
        query = extract_sql(answer)
        before, found, after = answer.rpartition(query) if query else ("", "", "")
        if not query or not found:
            self._impossible += 1
            return []
        draw = random.Random(f"{self.seed}/{draft.example.id}/mutations")
        tries = []
        for mutation in mutations(query, self._columns[draft.example.database], draw):
            text = before + mutation.sql + after
            if text not in draft.known:
                tries.append((mutation, text))
            if len(tries) == most:
                break
        self._impossible += not tries
        return tries

    def _executed(self, tried: Sequence[tuple[Draft, Sequence[tuple[Mutation, str]]]]) -> list[list[Side]]:
        """Execute all tries and keep their rows. Returns for each draft the sides that were found wrong, in their order."""
        if not tried:
            return []
        tokens = self.tokenize([{"messages": draft.messages, "answers": [text for _, text in found]} for draft, found in tried])
        sampling = Sampling({"name": MODEL}, None, 0, 0.0, 0, self.seed)
        rows, checks, owners = [], [], []
        for place, ((draft, found), ids) in enumerate(zip(tried, tokens, strict=True)):
            parent = draft.sides[0][0].rollout
            for number, ((mutation, text), answer_ids) in enumerate(zip(found, ids["answer_ids"], strict=True)):
                request = Request(f"{draft.example.id}/{mutation.name}", draft.example, draft.messages, parent=parent)
                answer = {"completion": text, "ids": answer_ids, "logprobs": [], "ended": True}
                row = {**rollout_row(self.stage, request, draft.prompt_ids, answer, str(number), sampling), "mutation": mutation.name}
                rows.append(row)
                owners.append(place)
                checks.append(self.task.check(draft.example, text, id=row["id"]))
        verdicts = [verdict_row(verdict) for verdict in self.scheduler.verify(checks)]
        self.rollouts, self.verdicts = rows, verdicts
        sides: list[list[Side]] = [[] for _ in tried]
        for row, verdict, owner in zip(rows, verdicts, owners, strict=True):
            if _result(verdict) == "wrong":
                sides[owner].append(Side(row["completion"], row["completion_ids"], row["id"], verdict, source=MODEL))
        return sides


def figures(rollouts: Sequence[Row], verdicts: Sequence[Row]) -> Row:
    """Executed mutations by what came out, in all and by name. rollouts: rows with the column `mutation`, its name."""
    by_name: dict[str, Counter[str]] = {}
    for row, verdict in zip(rollouts, verdicts, strict=True):
        by_name.setdefault(row["mutation"], Counter())[_result(verdict)] += 1
    counts = sum(by_name.values(), Counter())
    return {
        "mutations_tried": len(verdicts),
        **{f"mutations_{result}": counts[result] for result in RESULTS},
        "by_mutation": {
            name: {"tried": found.total(), **{result: found[result] for result in RESULTS if found[result]}}
            for name, found in sorted(by_name.items())
        },
        "verifier_calls": len(verdicts),
    }


def _result(verdict: Row) -> str:
    """What became of a changed answer (see RESULTS)."""
    if verdict["score"] is None:
        return "not_judged"
    return {"WRONG": "wrong", "PASS": "passed"}.get(verdict["status"], "failed")
