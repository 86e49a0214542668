"""The work of `prefkit ready`: the task is checked once, each model is asked, and everything is kept in a run folder of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefkit.data import answer_files, readiness, readiness_probe
from prefkit.data.readiness_verdict import verdict_of
from prefkit.errors import DataError, ModelError, RunError

if TYPE_CHECKING:
    from prefkit.context import Context
    from prefkit.progress import Progress
    from prefkit.recipe import Recipe
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask

Row = dict[str, Any]
STAGE = "ready"
NEEDLE_ROOM = 96
"""Tokens that the two made-up tables, their question and its query take at most."""
OUTPUTS = ("ready.json", "rollouts/ready.parquet", "verdicts/ready.parquet")


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is asked: a model with an adapter's folder or none, or answers from a file. `recipe`: with the model's own settings."""

    name: str
    recipe: Recipe
    adapter: str | None = None
    answers: Path | None = None

    @property
    def kind(self) -> str:
        return "answers" if self.answers else "adapter" if self.adapter else "model"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is asked. questions: of one split. samples: answers to each. matches: pairs of prompts for golds and for each end."""

    questions: int
    samples: int
    matches: int


@dataclass
class TaskCheck:
    """The task of a recipe, checked at most once for all models. `figures`: golds, planted and trivial answers, repetition."""

    recipe: Recipe
    task: SqlTask
    progress: Progress

    @cached_property
    def identity(self) -> str:
        from prefkit.context import task_identity
        from prefkit.runfolder import hash_value

        return hash_value(task_identity(self.task))

    @cached_property
    def every(self) -> list[Example]:
        """All questions of the task."""
        return self.task.every()

    @cached_property
    def faults(self) -> dict[str, str]:
        """Questions whose golds do not pass, by id."""
        return self._checked[0]

    @cached_property
    def figures(self) -> Row:
        return self._checked[1]

    @cached_property
    def _checked(self) -> tuple[dict[str, str], Row]:
        from prefkit.tasks.baselines import right_of_baselines
        from prefkit.verify.scheduler import Scheduler

        task, every = self.task, self.every
        held_out = [example for split in ("test", "unseen") if split in task.splits for example in task.load(split)]
        with Scheduler(workers=2) as scheduler, self.progress.task("checking the task", 4) as shown:
            faults = readiness.gold_faults(task, every, scheduler)
            shown.advance(1, faults=len(faults))
            planted = readiness.planted_checks(task, held_out)
            passed = sum(verdict.score == 1 for verdict in scheduler.verify(planted))
            shown.advance(1)
            good = [example for example in every if example.id not in faults]
            checks = [*planted, *(task.check(example, example.golds[0]) for example in good)]
            with Scheduler(workers=2) as second:
                differing = readiness.disagreements(checks, scheduler, second)
            shown.advance(1)
            trivial = right_of_baselines(task, held_out, scheduler)
            shown.advance(1)
        questions = {split: len(task.load(split)) for split in task.splits}
        return faults, {
            **readiness.gold_figures(faults, questions, len(every)),
            "planted": len(planted),
            "planted_passed": passed,
            "repeated": len(checks),
            "repeated_differ": len(differing),
            "first_differences": differing[:5],
            "trivial": {name: [right, len(held_out)] for name, right in trivial.items()},
        }


def measure(candidate: Candidate, check: TaskCheck, size: Size, split: str) -> Row:
    """The figures of one candidate with their verdict; taken from its folder where nothing has changed. A killed one goes on after its
    last batch."""
    from prefkit.commands import machine
    from prefkit.context import Context
    from prefkit.runfolder import RunFolder, hash_value
    from prefkit.scale.workers import Workers
    from prefkit.verify.scheduler import Scheduler

    recipe, progress = candidate.recipe, check.progress
    if not candidate.answers:
        machine.require(recipe.profile, recipe.model.name)
    inputs = hash_value(_identity(candidate, check, size, split))
    folder = RunFolder(Path("runs") / f"ready-{recipe.name}-{inputs[:10]}")
    progress.say(f"{candidate.name}: {folder.path}")
    if folder.is_done(STAGE, inputs):
        progress.say("nothing to do: it was checked before, and nothing has changed")
        return folder.read_json("ready.json")
    # What cannot be read is told before the folder is made.
    given = answer_files.read_answers(candidate.answers, {example.id: example for example in check.every}) if candidate.answers else None
    start = time.monotonic()
    figures = dict(check.figures)
    with folder.lock(), ExitStack() as stack:
        continued = folder.unfinished(STAGE, inputs)
        folder.describe(recipe=recipe.name, profile=recipe.profile)
        folder.write_text("recipe.yaml", recipe.to_yaml())
        folder.begin(STAGE, inputs, scratch=() if continued else [*OUTPUTS, f"rollouts/{STAGE}.partial.jsonl"])
        pool = stack.enter_context(Workers(folder.file("logs"), recipe.threads and min(recipe.threads, 4)))
        scheduler = stack.enter_context(Scheduler(workers=2))
        context = Context(recipe, folder, check.task, pool, scheduler, progress, stage=STAGE)
        if given is None:
            figures |= _asked(context, candidate.adapter, check, size, split)
        else:
            figures |= _given(context, candidate.name, given, check)
        figures |= {"name": candidate.name, "kind": candidate.kind, "model": None if given else recipe.model.name}
        figures["verdict"], figures["advice"] = verdict_of(figures)
        folder.write_json("ready.json", figures)
        scalars = {name: value for name, value in figures.items() if isinstance(value, int | float | str) and name != "advice"}
        folder.finish(STAGE, inputs, OUTPUTS, scalars, time.monotonic() - start, seed=recipe.seed)
    return folder.read_json("ready.json")  # as it is read the next time


def _identity(candidate: Candidate, check: TaskCheck, size: Size, split: str) -> Row:
    """What decides the figures: the task, the settings, the adapter and the answers by content."""
    from prefkit.runfolder import hash_bytes

    recipe = candidate.recipe
    weights = Path(candidate.adapter) / "adapter_model.safetensors" if candidate.adapter else candidate.answers
    if candidate.adapter and weights and not weights.is_file():
        raise ModelError(f"{weights} is missing: the adapter's folder has no weights.")
    if candidate.answers and not candidate.answers.is_file():
        raise DataError(f"there is no file {candidate.answers} for --answers.")
    return {
        "check": 2,  # counts up where the figures of equal inputs change
        "task": check.identity,
        "settings": recipe.model_dump(include={"seed", "rollouts", "calibrate"} | (set() if candidate.answers else {"model"})),
        "timeout_s": recipe.task.timeout_s,
        "size": [size.questions, size.samples, size.matches, split],
        "candidate": [candidate.name, candidate.kind, hash_bytes(weights) if weights else None],
    }


def _given(context: Context, name: str, answers: dict[str, list[str]], check: TaskCheck) -> Row:
    """The figures of answers from a file. Those to questions with a faulty gold are left out, and counted."""
    known = {example.id: example for example in check.every}
    good = {question: texts for question, texts in answers.items() if question not in check.faults}
    rows, verdicts = answer_files.judged(name, good, context.task, known, context.scheduler)
    context.keep(STAGE, rows, verdicts)
    figures = readiness.answer_figures(rows, verdicts, context.recipe.calibrate.k)
    return {**figures, "left_out": len(answers) - len(good), "split": None}


def _asked(context: Context, adapter: str | None, check: TaskCheck, size: Size, split: str) -> Row:
    """The figures of a model: what it is, its answers, and its likelihoods."""
    from prefkit.data.rollouts import first_turn

    recipe, task = context.recipe, context.task
    facts = _facts(context, adapter, check.every)
    lengths = dict(zip((example.id for example in check.every), facts["lengths"], strict=True))
    room = (facts["context"] or float("inf")) - recipe.rollouts.max_new_tokens
    good = [example for example in check.every if example.id not in check.faults and lengths[example.id] <= room]
    of_split = [example for example in good if example.split == split]
    asked = task.subset(of_split, size.questions, recipe.seed)
    begun, start = context.run.file(f"rollouts/{STAGE}.partial.jsonl").is_file(), time.monotonic()
    sampling = context.sampling(adapter, size.samples, recipe.calibrate.temperature)
    rows, verdicts = context.answer(STAGE, first_turn(task, asked), sampling)
    seconds = time.monotonic() - start
    context.keep(STAGE, rows, verdicts)
    figures = readiness.answer_figures(rows, verdicts, recipe.calibrate.k)
    reach = (facts["context"] or float("inf")) - max(NEEDLE_ROOM, recipe.rollouts.max_new_tokens)
    longest = max((one for one in good if lengths[one.id] <= reach), key=lambda one: lengths[one.id], default=None)
    probes = _probes(context, adapter, task.subset(of_split, 2 * size.matches, recipe.seed), longest, size.matches)
    used = context.pool.run_all("footprint", {}, lambda _: None)
    return {
        **figures,
        **probes,
        "split": split,
        "left_out": 0,
        "context": facts["context"],
        "parameters": facts["parameters"],
        "weights_gb": facts["bytes"] / 1e9,
        "longest_prompt": max(lengths.values(), default=0),
        "max_new_tokens": recipe.rollouts.max_new_tokens,
        "prompts_measured": len(lengths),
        "too_long": sum(length > room for length in lengths.values()),
        # Answers that an earlier try left took none of this one's time.
        "tokens_per_s": None if begun or not rows else figures["tokens"] / seconds,
        "memory_gb": (used["gpu"] or used["memory"]) / 1e9,
        "processes": context.pool.processes,
    }


def _facts(context: Context, adapter: str | None, examples: Sequence[Example]) -> Row:
    """What the model is, and the tokens of each question's prompt. Each process gets a part, so that all have loaded the model after it."""
    count = context.pool.processes
    bounds = [len(examples) * number // count for number in range(count + 1)]
    parts = [examples[start:stop] for start, stop in pairwise(bounds)]
    jobs = [{"model": context.model, "adapter": adapter, "prompts": [context.task.prompt(example) for example in part]} for part in parts]
    found = dict(context.progress.track(context.pool.map("facts", jobs), "loading the model", count))
    return {**found[0], "lengths": [length for number in range(count) for length in found[number]["lengths"]]}


def _probes(context: Context, adapter: str | None, examples: Sequence[Example], longest: Example | None, most: int) -> Row:
    """Whether golds belong to their questions by likelihood, and whether a name is found at the far end of the longest schema."""
    golds = readiness_probe.gold_matches(context.task, examples, most)
    needles = readiness_probe.needle_matches(context.task.prompt(longest) if longest else None, most, context.recipe.seed)
    lists = [golds, needles["far"], needles["near"]]
    rows = [row for matches in lists for match in matches for row in match.rows]
    share = -(-len(rows) // (2 * context.pool.processes)) or 1
    jobs = [{"model": context.model, "adapter": adapter, "rows": rows[start : start + share]} for start in range(0, len(rows), share)]
    done = dict(context.progress.track(context.pool.map("likelihoods", jobs), "likelihoods", len(jobs)))
    scores = [score for number in range(len(jobs)) for score in done[number]]
    of_golds, far, near = readiness_probe.parted(scores, *map(len, lists))
    return {
        "gold_match": readiness_probe.passed(of_golds).to_dict(),
        "gold_nats": readiness_probe.nats_per_character(golds, of_golds),
        "needle_far": readiness_probe.passed(far).to_dict(),
        "needle_near": readiness_probe.passed(near).to_dict(),
    }


def candidate_of(name: str, base: Recipe) -> Candidate:
    """What `--model` names: a run folder (its adapter), an adapter's folder, or a model as a recipe names it."""
    from prefkit import recipe
    from prefkit.commands.evaluate import base_of, with_model
    from prefkit.models.load import ModelSpec, resolve

    target = Path(name).expanduser()
    if (target / "manifest.json").is_file():
        if not (target / "adapter" / "adapter_config.json").is_file():
            raise RunError(f"{target} has no adapter yet: its run has not got so far. Go on with `prefkit recipe {target} --resume`.")
        target = target / "adapter"
    if not (target / "adapter_config.json").is_file():
        if name != "embedded":
            resolve(ModelSpec(name))  # a folder that is none is told before the task is checked
        return Candidate(name, with_model(base, str(target.resolve()) if target.is_dir() else name))
    folder, owner = target.resolve(), target.resolve().parent / "recipe.yaml"
    if owner.is_file():
        return Candidate(name, base.model_copy(update={"model": recipe.load(owner).model}), str(folder))
    return Candidate(name, with_model(base, base_of(folder)), str(folder))


def answers_candidate(file: str, base: Recipe) -> Candidate:
    """Answers from a file, under the file's name."""
    return replace(Candidate(file, base), answers=Path(file).expanduser())
