"""What the stages of a run share: the recipe, the run folder, the task, the processes that answer and the ones that judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prefkit import resources
from prefkit.data import columns, receipts
from prefkit.data.history import Ingested
from prefkit.data.rollouts import Request, Row, Sampling, collect
from prefkit.progress import Progress
from prefkit.recipe import Recipe
from prefkit.runfolder import RunFolder, hash_bytes
from prefkit.scale.workers import Workers
from prefkit.tasks.base import Example
from prefkit.tasks.names import INGESTED
from prefkit.tasks.sampling import Parts, without_golds
from prefkit.tasks.sql import SqlTask
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.trust import counts as trust_counts
from prefkit.verify.trust import require_one_kind


@dataclass
class Context:
    """What stages share: the recipe, the run folder, the task, the processes that answer and the ones that judge."""

    recipe: Recipe
    run: RunFolder
    task: SqlTask
    pool: Workers
    scheduler: Scheduler
    progress: Progress
    stage: str = ""
    tracker: Any = None
    _parts: Parts | None = field(default=None, repr=False)

    @property
    def model(self) -> dict[str, str]:
        """The model as the processes load it."""
        model = self.recipe.model
        return {"name": model.name, "quantization": model.quantization, "dtype": model.dtype, "cache": str(resources.cache_dir())}

    @property
    def parts(self) -> Parts:
        """The disjoint parts of the training questions."""
        if self._parts is None:
            limits = self.recipe.limits
            parts = self.task.parts(
                self.recipe.seed, references=limits.references, own=limits.own, calibrate=limits.calibrate, readiness=limits.readiness or 0
            )
            self._parts = without_golds(parts, self.ingested)
        return self._parts

    @property
    def ingested(self) -> list[Example]:
        """Questions out of a production log; none where no folder is named."""
        return self.task.load(INGESTED) if INGESTED in self.task.splits else []

    def held_out(self, split: str) -> list[Example]:
        """The questions of a held-out split that this run takes; none where the task lacks the split."""
        if split not in self.task.splits:
            return []
        return self.task.subset(self.task.load(split), getattr(self.recipe.limits, split), self.recipe.seed)

    def sampling(self, adapter: str | None, k: int, temperature: float, greedy: bool = False) -> Sampling:
        """How a policy is sampled in this recipe."""
        rollouts = self.recipe.rollouts
        return Sampling(self.model, adapter, k, temperature, rollouts.max_new_tokens, self.recipe.seed, rollouts.branches, greedy)

    def answer(
        self, name: str, requests: Sequence[Request], sampling: Sampling, stream: str | None = None, part: str | None = None
    ) -> tuple[list[Row], list[Row]]:
        """Rollouts and verdicts of `requests` under the name `name`, shown as they come; continued where an earlier try stopped.

        `part` tells apart what one stage asks at several times. What is kept for another try goes once the stage is done.
        """
        place = f"{name}/{part}" if part else name
        partial = self.run.file(f"rollouts/{place}.partial.jsonl")
        with self.progress.task(place, len(requests)) as shown:
            rows, verdicts = collect(
                name,
                requests,
                sampling,
                self.task,
                self.pool,
                self.scheduler,
                partial,
                lambda prompts, values: shown.advance(prompts, **values),
                stream,
            )
        weights = receipts.adapter_hash(sampling.adapter)
        return [{**row, "adapter": weights, "template": self.task.template} for row in rows], verdicts

    def keep(self, name: str, rows: list[Row], verdicts: list[Row]) -> None:
        """Write rollouts, each with the hash of its content, and verdicts."""
        rows = receipts.sealed(rows, receipts.ROLLOUT, adapter=None, template=self.task.template)
        self.run.write_rows(f"rollouts/{name}.parquet", rows, columns.rollouts())
        self.run.write_rows(f"verdicts/{name}.parquet", verdicts, columns.verdicts())

    def keep_training(self, rel: str, rows: list[Row], types: columns.Types) -> None:
        """Write pairs or trajectories, each with what it rests on."""
        rows = receipts.training_rows(rows, self.task, self.scheduler, self.recipe.model.name)
        self.run.write_rows(rel, rows, types)

    def kept(self, name: str) -> tuple[list[Row], list[Row]]:
        """Rollouts and verdicts that an earlier stage wrote."""
        return self.run.read_rows(f"rollouts/{name}.parquet"), self.run.read_rows(f"verdicts/{name}.parquet")

    def one_kind(self, verdicts: Sequence[Row], where: str) -> None:
        """Raise DataError where `where` would rest on executed verdicts and on a model's opinions, and the recipe does not say so."""
        require_one_kind(trust_counts(verdicts), self.recipe.judge.mix, where)

    def tokenize(self, rows: list[Row]) -> list[Row]:
        """{"messages", "answers"} -> {"prompt_ids", "answer_ids"}: token ids, each answer with its end token."""
        return next(iter(self.pool.map("tokenize", [{"model": self.model, "adapter": None, "rows": rows}])))[1]

    def train(self, job: str, arguments: Row) -> Row:
        """Run a training job in all processes; its metrics go to metrics.jsonl, the tracker and the live view."""
        shown = self.progress.task(self.stage, None)

        def report(event: Row) -> None:
            step, metrics = event["progress"], event["metrics"]
            self.run.log_metrics(self.stage, step, **metrics)
            if self.tracker:
                self.tracker.log(step, metrics)
            shown.set_total(event["total"])
            values = {name: round(metrics[name], 3) for name in ("loss", "reward", "kl") if name in metrics}
            shown.advance(step - shown.meter.done, **values)

        with shown:
            result = self.pool.run_all(job, arguments, report)
        return {**result, **self._of_curve(result)}

    def _of_curve(self, result: Row) -> Row:
        """The figures that a training's whole curve gives: the process that ends a resumed training has seen the end of it alone."""
        lines = self.run.read_metrics(self.stage)

        def values(metric: str) -> list[float]:
            return [row[metric] for row in lines if row.get(metric) is not None]

        found: Row = {}
        for name in result:
            metric, _, place = name.rpartition("_")
            if place in ("first", "last") and (curve := values(metric)):
                found[name] = curve[0 if place == "first" else -1]
        if "groups_with_signal" in result and (without := values("frac_reward_zero_std")):
            found["groups_with_signal"] = sum(1 - share for share in without) / len(without)
        return found

    def round_examples(self, index: int) -> tuple[Example, ...]:
        """The questions of a warm-start round: on references, the ones out of production too.

        A run that goes on from another has learned its references already. Beside new questions it repeats a share of them, balanced over
        databases and levels, because a model that trains on the new alone forgets the old.
        """
        recipe, references = self.recipe, self.parts.references
        if recipe.warm_start.rounds[index].source != "references":
            return self.parts.own
        if recipe.model.adapter and self.ingested:
            count = math.ceil(recipe.warm_start.rehearsal * len(references))
            references = tuple(self.task.subset(references, count, recipe.seed))
        return (*self.ingested, *references)

    def warm_adapter(self, index: int) -> str | None:
        """The adapter of a warm-start round; before the first, the one that the run goes on from, or None."""
        return str(self.run.file(f"warm_start/round-{index}/adapter")) if index >= 0 else self.start

    @property
    def start(self) -> str | None:
        """The adapter of the earlier run that this one goes on from, or None."""
        return str(self.run.file("start/adapter")) if self.recipe.model.adapter else None


def load_task(recipe: Recipe) -> SqlTask:
    """The recipe's task: a shipped dataset, or the user's own database and questions; and what is ingested."""
    return with_ingested(_asked(recipe), recipe.task.ingested_folders)


def _asked(recipe: Recipe) -> SqlTask:
    task, cache = recipe.task, resources.cache_dir()
    if task.database is not None and task.questions is not None:
        return SqlTask.from_user(task.database, task.questions, task.schema_values, task.timeout_s, task.augmented)
    folder = Path(task.dataset) if Path(task.dataset).is_dir() else resources.dataset_path(task.dataset)
    return SqlTask.from_dataset(folder, cache, values=task.schema_values, timeout_s=task.timeout_s)


def with_ingested(task: SqlTask, folders: Sequence[str]) -> SqlTask:
    """The task with the questions of ingested folders."""
    for folder in folders:
        task = Ingested.read(folder).added_to(task)
    return task


def task_identity(task: SqlTask) -> Row:
    """What of the task decides results: questions, golds, databases by content, schema texts."""
    return {
        "questions": [[example.id, example.question, list(example.golds)] for example in task.every()],
        "databases": {name: [hash_bytes(path) for path in paths] for name, paths in sorted(task.databases.items())},
        "schemas": {name: task.schema(name) for name in sorted(task.databases)},
    }
