"""Whether a gold is fit to judge by, found once by running it.

| what is wrong                                            | how it is seen                                                            |
|----------------------------------------------------------|---------------------------------------------------------------------------|
| it fails, writes, runs too long or returns too much      | its own run                                                               |
| it reads the clock or random()                           | the engine's own look at it: authorizer, tree or plan, and the tokens     |
| empty on every data instance                             | its own run: any query that returns nothing would be right                |
| ambiguous: LIMIT cuts through ties, a column stands bare | the same rows in another order (sql_engines.py) give another result       |
| beside an aggregate, text is joined in no fixed order …  |                                                                           |

`prepare` is a generator: it yields the jobs it needs, is sent their answers, and returns the Gold. The scheduler drives it.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass

from prefkit.sandbox.job import Answer, Result, SqlJob, read_rows
from prefkit.sandbox.limits import MAX_SQL, SqlLimits
from prefkit.verify.compare import Expected, Row, same_value
from prefkit.verify.gold_text import GoldText
from prefkit.verify.sql_engines import Target

Steps = Generator[SqlJob, Answer, "Gold"]


@dataclass(frozen=True, slots=True)
class Gold:
    """A checked gold: its result on each data instance, or why it cannot be used. infra: the machine's fault, try again."""

    instances: tuple[Expected, ...] = ()
    problem: str = ""
    infra: bool = False

    def to_json(self) -> str:
        instances = [[instance.width, instance.rows, instance.ties] for instance in self.instances]
        return json.dumps([instances, self.problem], default=lambda value: {"blob": value.hex()})

    @classmethod
    def from_json(cls, text: str) -> Gold:
        instances, problem = json.loads(text)
        return cls(tuple(Expected(width, read_rows(rows), ties and tuple(ties)) for width, rows, ties in instances), problem)


def prepare(sql: str, target: Target, limits: SqlLimits) -> Steps:
    """Run and check one gold on all data instances."""
    text = target.engine.read_gold(sql)
    if not text.sql or len(text.sql) > MAX_SQL:
        return Gold(problem="gold is empty text" if not text.sql else f"gold is longer than {MAX_SQL} characters")
    answer = yield target.job(text.sql, limits)
    last = answer.last
    if last.status != "ok":
        return Gold(problem=_failure(last), infra=last.status == "infra")
    uses = {use for result in answer.results for use in result.uses}
    if uses:
        return Gold(problem="gold reads the clock" if "clock" in uses else "gold uses random()")
    if not any(result.rows for result in answer.results):
        return Gold(problem="gold is empty on every data instance")
    instances = yield from _expected(text, answer.results, target, limits)
    problem = yield from _ambiguity(text, instances, target, limits)
    return Gold(problem=problem) if problem else Gold(instances)


def _failure(result: Result) -> str:
    if result.status == "policy":
        return f"gold is not allowed: {result.reason}"
    return f"{'database cannot be read' if result.status == 'database' else 'gold fails'}: {result.reason}"


def _expected(text: GoldText, results: list[Result], target: Target, limits: SqlLimits) -> Generator[SqlJob, Answer, tuple[Expected, ...]]:
    """The results with the lengths of their runs of equal sort keys, where the gold orders its rows."""
    if not text.ordered or all(len(result.rows) < 2 for result in results):
        return tuple(Expected(len(result.columns), result.rows) for result in results)
    width = len(results[0].columns)
    places, missing = target.engine.key_columns(text, results[0].columns)
    keyed: list[list[Row]] | None = [result.rows for result in results]
    if missing:
        keyed = yield from _fetch_keys(text, missing, results, target, limits)
    fold_case = "NOCASE" in text.sql.upper()
    instances = []
    for i, result in enumerate(results):
        if keyed is None:  # the keys cannot be had: the order is taken as strict, and the check for ambiguity says whether it is
            instances.append(Expected(width, result.rows, (1,) * len(result.rows)))
            continue
        added = iter(range(width, width + len(missing)))
        columns = [place if place is not None else next(added) for place in places]
        instances.append(Expected(width, result.rows, _ties([tuple(row[c] for c in columns) for row in keyed[i]], fold_case)))
    return tuple(instances)


def _fetch_keys(
    text: GoldText, missing: list[str], results: list[Result], target: Target, limits: SqlLimits
) -> Generator[SqlJob, Answer, list[list[Row]] | None]:
    """Each instance's rows with the missing keys behind them, or None where no rewrite gives the gold's own rows."""
    width = len(results[0].columns)
    for query in target.engine.with_columns(text, missing):
        answer = yield target.job(query, limits.longer(2))
        if len(answer.results) == len(results) and answer.last.status == "ok":
            same = all([row[:width] for row in more.rows] == result.rows for more, result in zip(answer.results, results, strict=True))
            if same:
                return [result.rows for result in answer.results]
    return None


def _ties(keys: list[Row], fold_case: bool) -> tuple[int, ...]:
    """Lengths of the runs of equal keys. Floats within the tolerance are equal, as they are in the rows."""
    runs: list[int] = []
    before: Row | None = None
    for key in keys:
        if fold_case:
            key = tuple(value.lower() if isinstance(value, str) else value for value in key)
        if before is not None and all(map(same_value, before, key)):
            runs[-1] += 1
        else:
            runs.append(1)
        before = key
    return tuple(runs)


def _ambiguity(text: GoldText, instances: tuple[Expected, ...], target: Target, limits: SqlLimits) -> Generator[SqlJob, Answer, str]:
    """Why the gold has more than one right result, or "". Databases of which no copy can be made are not looked at."""
    if text.tied_to_storage:
        return ""
    comparable = list(range(len(target.databases)))
    for order in target.engine.orders:
        answer = yield target.job(text.sql, limits.longer(3), order)
        for i, result in enumerate(answer.results):
            if i not in comparable or result.status != "ok" or not target.engine.difference(instances[i], result):
                continue
            if order == "forward" and not result.faithful:
                # This copy may differ for another reason than order, and does so already unshuffled: it says nothing.
                comparable.remove(i)
                continue
            where = f" (data instance {i + 1})" if i else ""
            what = "LIMIT cuts through ties" if text.limited else "its result depends on the order in which rows are stored"
            return f"gold is ambiguous: {what}{where}"
    return ""
