"""Run the stages of a recipe over a run folder: in order, each once, skipping what is unchanged, resuming what was interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from prefkit import lineage, selection, stages
from prefkit.context import Context, load_task, task_identity
from prefkit.data.history import round_of
from prefkit.files import remove
from prefkit.progress import Progress
from prefkit.recipe import Recipe
from prefkit.runfolder import RunFolder, hash_value
from prefkit.scale.workers import Workers
from prefkit.verify.scheduler import Scheduler


@dataclass(frozen=True)
class Stage:
    """One step: its name, what it does, the stages whose files it reads, the settings that change its result, and the files it leaves."""

    name: str
    work: Callable[[Context], dict[str, Any]]
    reads: tuple[str, ...]
    settings: dict[str, Any]
    writes: tuple[str, ...]


def plan(recipe: Recipe, before: Mapping[str, Any] | None = None) -> list[Stage]:
    """The stages of `recipe` in order. before: the hashes of what the run goes on from, where that lies here no longer (see
    `lineage.inputs`)."""
    rounds = recipe.warm_start.rounds
    limits = recipe.limits.model_dump()
    parts = {name: limits[name] for name in ("readiness", "references", "own", "calibrate")}
    if recipe.model.adapter and recipe.task.ingested_folders:
        parts["rehearsal"] = recipe.warm_start.rehearsal
    base = {
        "model": recipe.model.model_dump(exclude={"adapter"}),
        "rollouts": recipe.rollouts.model_dump(),
        "seed": recipe.seed,
        "parts": parts,
        "judge": recipe.judge.model_dump(),
    }
    before = lineage.inputs(recipe) if before is None else before
    result = [
        *([Stage("start", stages.take_start, (), {"adapter": before["adapter"]}, ("start/adapter",))] if recipe.model.adapter else []),
        *([_history(base, before["ingested"])] if recipe.task.ingested_folders else []),
    ]
    start = ("start",) if recipe.model.adapter else ()
    held_out = {"test": limits["test"], "unseen": limits["unseen"]}
    ready = ("readiness.json", *_kept("readiness"))
    result.append(Stage("readiness", stages.check_readiness, start, {**base, **held_out}, ready))
    for index in range(len(rounds)):
        result += _round(recipe, index, base)
    warm = tuple(f"warm_start-{index}" for index in range(len(rounds)))
    select = {**base, "validation": limits["validation"], "select": recipe.select.model_dump(), "evaluate": recipe.evaluate.model_dump()}
    result.append(
        Stage("select-warm", selection.select_warm, (*start, *warm), select, ("select-warm.json", "evaluation/select-warm.parquet"))
    )
    calibrate: tuple[str, ...] = ()
    if recipe.calibrate.steps:
        name = "rollouts-calibrate"
        probe = {**base, "temperature": recipe.calibrate.temperature}
        result.append(Stage(name, stages.make_calibrate_rollouts, ("select-warm",), probe, _kept(name)))
        settings = {**base, "calibrate": recipe.calibrate.model_dump()}
        result.append(
            Stage("calibrate", stages.train_calibrate, (name, "select-warm"), settings, ("calibrate/adapter", "calibrate/candidates"))
        )
        calibrate = ("calibrate",)
    chosen = ("select-final.json", "evaluation/select-final.parquet", "adapter")
    result.append(Stage("select-final", selection.select_final, ("select-warm", *calibrate), select, chosen))
    evaluation = ("evaluation/answers.parquet", "evaluation.json", "ledger.json")
    result.append(
        Stage(
            "evaluate",
            stages.evaluate,
            (*start, "select-final", *warm),
            {**base, **held_out, "evaluate": recipe.evaluate.model_dump()},
            evaluation,
        )
    )
    result.append(Stage("report", stages.write_report, ("evaluate",), {"report": 1}, ("report.html", "report.md")))
    return result


def _history(base: dict[str, Any], folders: list[str]) -> Stage:
    files = (*_kept("history"), "pairs/history.parquet", "trajectories/history.parquet")
    return Stage("history", stages.take_history, (), {"model": base["model"], "folders": folders}, files)


def _round(recipe: Recipe, index: int, base: dict[str, Any]) -> list[Stage]:
    """The stages of one round of warm start. `base`: the settings that all stages have."""
    turn = recipe.warm_start.rounds[index]
    result: list[Stage] = []
    before = (f"warm_start-{index - 1}",) if index else ("start",) if recipe.model.adapter else ()
    name = f"rollouts-{index}"
    result.append(
        Stage(name, partial(stages.make_rollouts, index=index), before, {**base, "k": turn.k, "sampled": turn.sampled}, _kept(name))
    )
    sources: tuple[str, ...] = (name,)
    if recipe.task.ingested_folders and index == round_of(recipe.warm_start.rounds):
        sources = (*sources, "history")
    if recipe.corrects(index):
        name = f"corrections-{index}"
        files = (*_kept(name), f"trajectories/round-{index}.parquet", f"pairs/corrections-{index}.parquet")
        result.append(
            Stage(
                name,
                partial(stages.make_corrections, index=index),
                (f"rollouts-{index}", *before),
                {**base, "corrections": recipe.corrections.model_dump(exclude={"train", "references"}), "source": turn.source},
                files,
            )
        )
        sources = (*sources, name)
    repairs = recipe.corrects(index) and recipe.corrections.train
    pairs = {**base, "pairs": recipe.pairs.model_dump(), "source": turn.source, "repairs": repairs}
    name, files = f"pairs-{index}", (f"pairs/round-{index}.parquet",)
    if recipe.pairs.mutations:
        files += _kept(name)
    if index == len(recipe.warm_start.rounds) - 1:
        files += ("pairs/README.md",)
    result.append(Stage(name, partial(stages.make_pairs, index=index), sources, pairs, files))
    name = f"warm_start-{index}"
    work = partial(stages.train_warm_start, index=index)
    result.append(
        Stage(name, work, (f"pairs-{index}", *before), {**base, "round": turn.model_dump()}, (f"warm_start/round-{index}/adapter",))
    )
    return result


def _kept(name: str) -> tuple[str, str]:
    return f"rollouts/{name}.parquet", f"verdicts/{name}.parquet"


def run(recipe: Recipe, folder: Path, progress: Progress, processes: int | None = None, only: Sequence[str] | None = None) -> RunFolder:
    """Run every stage of `recipe` whose inputs changed or that has not ended, in `folder`. Returns the run folder.

    Killed at any moment, the same call goes on where it was: finished stages are skipped, sampling goes on after the last batch,
    training after the last checkpoint. `only`: the stages to run, where not all are wanted.
    """
    result = RunFolder(folder)
    task = load_task(recipe)  # before the folder is made: data that cannot be read leaves nothing behind
    lineage.check(recipe, task, folder)
    with result.lock(), ExitStack() as stack:
        result.describe(
            recipe=recipe.name, profile=recipe.profile, **lineage.named(recipe)
        )  # first: a folder with other files and no manifest is nobody's run
        result.write_text("recipe.yaml", recipe.to_yaml())
        pool = stack.enter_context(Workers(result.file("logs"), processes or (recipe.threads and min(recipe.threads, 4))))
        scheduler = stack.enter_context(Scheduler(workers=2))
        context = Context(recipe, result, task, pool, scheduler, progress)
        identity = hash_value(task_identity(task))
        todo = [stage for stage in plan(recipe) if only is None or stage.name in only]
        kept: list[str] = []
        for note in task.notes:
            progress.say(f"note: {note}")
        for number, stage in enumerate(todo, 1):
            inputs = inputs_of(result, stage, identity)
            if result.is_done(stage.name, inputs):
                _remove_partials(result, stage)  # of a run that was killed just after the stage was done
                kept.append(stage.name)
                continue
            if kept:
                progress.say(f"finished and unchanged: {', '.join(kept)}")
                kept.clear()
            progress.stage(stage.name, number, len(todo))
            _run_stage(context, stage, inputs)
    return result


def inputs_of(run: RunFolder, stage: Stage, identity: str) -> str:
    """The hash of everything that decides a stage's result: the task, its settings, and the content of what it reads."""
    return inputs_from(run.manifest["stages"], stage, identity)


def inputs_from(entries: Mapping[str, dict[str, Any]], stage: Stage, identity: str) -> str:
    """The same from the manifest's entries of stages."""
    upstream = {name: (entries.get(name) or {}).get("outputs") for name in stage.reads}
    return hash_value({"stage": stage.name, "task": identity, "settings": stage.settings, "reads": upstream})


def _run_stage(context: Context, stage: Stage, inputs: str) -> None:
    from prefkit.report.wandb_report import tracker

    run, recipe = context.run, context.recipe
    continued = run.unfinished(stage.name, inputs)
    step = _last_checkpoint(run, stage) if continued else None
    run.begin(stage.name, inputs, keep_steps=step, scratch=() if continued else _scratch(stage))
    context.stage = stage.name
    start = time.monotonic()
    with tracker(run, stage.name, recipe.model_dump(mode="json"), enabled=recipe.track.wandb != "off") as context.tracker:
        figures = stage.work(context)
        context.tracker.summary({key: value for key, value in figures.items() if isinstance(value, int | float)})
        if stage.name == "report":
            context.tracker.page("report", run.file("report.html"))
    run.finish(stage.name, inputs, stage.writes, figures, time.monotonic() - start, seed=recipe.seed)
    _remove_partials(run, stage)  # last: until the stage is done, a killed one goes on from there


def _scratch(stage: Stage) -> list[str]:
    """What an interrupted stage leaves for its next try; removed where the inputs changed, so that nothing of it is continued."""
    return [*stage.writes, *_training_folders(stage), *_partials(stage)]


def _partials(stage: Stage) -> tuple[str, str]:
    """Where the batches of a stage that is under way lie."""
    return f"rollouts/{stage.name}", f"rollouts/{stage.name}.partial.jsonl"


def _remove_partials(run: RunFolder, stage: Stage) -> None:
    for rel in _partials(stage):
        remove(run.file(rel))


def _training_folders(stage: Stage) -> list[str]:
    if stage.name == "calibrate":
        return ["calibrate"]
    return [f"warm_start/round-{stage.name.removeprefix('warm_start-')}"] if stage.name.startswith("warm_start-") else []


def _last_checkpoint(run: RunFolder, stage: Stage) -> int | None:
    """The step up to which an interrupted training's metrics stay."""
    from prefkit.train.checkpoints import whole_checkpoints

    for folder in _training_folders(stage):
        found = whole_checkpoints(run.file(folder))
        return found[-1][0] if found else None
    return None
