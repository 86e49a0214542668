"""`prefkit evaluate`: measure a run, an adapter or a model on every held-out question."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefkit.commands.arguments import Parser, whole
from prefkit.errors import ModelError, RunError

if TYPE_CHECKING:
    from prefkit.recipe import Recipe
    from prefkit.runfolder import RunFolder

ABOUT = "Measure a run's policies, an adapter or a model on all questions of test and unseen, greedy and sampled, with 95 % intervals."
EXAMPLE = "prefkit evaluate runs/sql-gen-0123456789"
STAGE = "evaluate"
OUTPUTS = ("evaluation/answers.parquet", "evaluation.json", "ledger.json")


@dataclass(frozen=True, slots=True)
class Policy:
    """What is measured under one name: a model (as a recipe names it) with an adapter's folder or none."""

    name: str
    model: str
    adapter: str | None


@dataclass(frozen=True, slots=True)
class Job:
    """What to measure, with which settings, and where to write it. `spent`: what each policy cost to make."""

    recipe: Recipe
    policies: tuple[Policy, ...]
    folder: Path
    spent: dict[str, dict[str, float]]


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "target", metavar="RUN|ADAPTER|MODEL", help="a run folder, an adapter's folder, or a model: embedded, a folder, a Hugging Face name"
    )
    parser.add_argument("--task", metavar="T", help="the recipe (name or file) whose task is asked; a run has its own, the others need one")
    parser.add_argument("--limit", type=whole(1), metavar="N", help="questions of each split (else all)")
    parser.add_argument("--k", type=whole(1), metavar="N", help="sampled answers for each question (else as the recipe says)")
    parser.add_argument("--model", metavar="M", help="the model below an adapter (else the one that its folder names)")
    parser.add_argument(
        "--to", type=Path, metavar="DIR", help="where to write (else evaluation-full/ in the run, or runs/evaluate-NAME-HASH)"
    )


def run(options: Any) -> int:
    from prefkit.commands import scores
    from prefkit.runfolder import RunFolder

    job = job_of(options)
    folder = RunFolder(job.folder)
    try:
        new = measure(job, folder)
    except KeyboardInterrupt:
        print("Stopped. The same command goes on after the last batch that was answered.", file=sys.stderr)
        return 130
    if not new:
        print(f"nothing to do: {job.folder} has this evaluation already, and nothing of it has changed\n")
    scores.show(folder.read_json("evaluation.json"), folder.read_json("ledger.json"))
    print(f"\nwritten to {job.folder}")
    return 0


def measure(job: Job, folder: RunFolder) -> bool:
    """Answer, verify, and write; False where all of it is there already. A killed evaluation goes on after its last batch."""
    from prefkit import stages
    from prefkit.commands import machine
    from prefkit.context import Context, load_task, task_identity
    from prefkit.files import remove
    from prefkit.progress import Progress
    from prefkit.runfolder import hash_value
    from prefkit.scale.workers import Workers
    from prefkit.verify.scheduler import Scheduler

    task = load_task(job.recipe)
    inputs = hash_value({"task": task_identity(task), **identity(job)})
    if folder.is_done(STAGE, inputs):
        return False
    for policy in job.policies:
        machine.require(job.recipe.profile, policy.model)
    processes = job.recipe.threads and min(job.recipe.threads, 4)
    with folder.lock(), Workers(folder.file("logs"), processes) as pool, Scheduler(workers=2) as scheduler, Progress() as progress:
        folder.write_text("recipe.yaml", job.recipe.to_yaml())
        folder.describe(recipe=job.recipe.name, profile=job.recipe.profile)
        if not folder.unfinished(STAGE, inputs):
            # Answers that a stopped evaluation of something else left here are not this one's.
            remove(folder.file(f"rollouts/{STAGE}"))
        folder.begin(STAGE, inputs)
        progress.stage(STAGE)
        start = time.monotonic()
        context = Context(job.recipe, folder, task, pool, scheduler, progress, stage=STAGE)
        splits = [split for split in ("test", "unseen") if split in task.splits]
        examples = [example for split in splits for example in context.held_out(split)]
        answers: list[dict[str, Any]] = []
        for model in dict.fromkeys(policy.model for policy in job.policies):
            own = replace(context, recipe=with_model(job.recipe, model))
            answers += stages.measure(own, {policy.name: policy.adapter for policy in job.policies if policy.model == model}, examples)
        figures = stages.write_evaluation(context, answers, {split: len(task.load(split)) for split in splits}, job.spent)
        folder.finish(STAGE, inputs, OUTPUTS, figures, time.monotonic() - start, seed=job.recipe.seed)
        remove(folder.file("rollouts"))  # last: until the evaluation is done, a killed one goes on from here
    return True


def identity(job: Job) -> dict[str, Any]:
    """What decides the result beside the task: settings, models, and the adapters by content."""
    from prefkit.runfolder import hash_bytes

    recipe = job.recipe
    weights = {policy.adapter: hash_bytes(Path(policy.adapter) / "adapter_model.safetensors") for policy in job.policies if policy.adapter}
    return {
        "settings": recipe.model_dump(include={"model", "seed", "limits", "rollouts", "evaluate", "judge"}),
        "policies": [[policy.name, policy.model, weights.get(policy.adapter or "")] for policy in job.policies],
        "spent": job.spent,
    }


def job_of(options: Any) -> Job:
    """What the target is: a run folder, an adapter, or else a model. RunError or ModelError where it is none of them."""
    target = Path(options.target)
    if (target / "manifest.json").is_file():
        return _run_job(options, target)
    if (target / "adapter_config.json").is_file():
        return _adapter_job(options, target)
    if target.is_dir() and not (target / "config.json").is_file():
        raise RunError(f"{target} is neither a run folder (manifest.json) nor an adapter (adapter_config.json) nor a model (config.json).")
    # A Hugging Face name has one slash, too: what begins in a folder that is there is a path.
    if not target.is_dir() and (options.target.startswith((".", "/", "~")) or (len(target.parts) > 1 and target.parent.is_dir())):
        there = ", ".join(str(path.parent) for path in sorted(target.parent.glob("*/manifest.json")))
        raise RunError(f"there is no {target}." + (f" Runs there: {there}." if there else ""))
    return _model_job(options)


def _run_job(options: Any, target: Path) -> Job:
    from prefkit import recipe, stages
    from prefkit.context import Context
    from prefkit.progress import quiet
    from prefkit.runfolder import RunFolder

    if options.model:
        raise ModelError("a run has its own model; --model is for an adapter's folder.")
    source, chosen = RunFolder(target), recipe.load(target)
    nothing: Any = None  # which policies a run has is read from its folder alone
    context = Context(chosen, source, nothing, nothing, nothing, quiet())
    adapters = stages.policy_adapters(context)
    policies = tuple(Policy(name, chosen.model.name, adapter) for name, adapter in adapters.items())
    name = "evaluation-full" if options.limit is None else f"evaluation-{options.limit}"
    if options.task:
        other = recipe.load(options.task)
        chosen, name = chosen.model_copy(update={"task": other.task}), f"{name}-{other.name}"
    return Job(asked(chosen, options), policies, options.to or target / name, stages.costs(source.manifest["stages"]))


def _adapter_job(options: Any, target: Path) -> Job:
    recipe = _task_recipe(options)
    name = _absolute(options.model or base_of(target))
    adapter = str(target.resolve())
    policies = (Policy("base", name, None), Policy("adapter", name, adapter))
    return _written(options, with_model(recipe, name), policies)


def _model_job(options: Any) -> Job:
    recipe = _task_recipe(options)
    base, name = recipe.model.name, _absolute(options.target)
    policies = (Policy("base", base, None), *((Policy("model", name, None),) if name != base else ()))
    return _written(options, recipe, policies)


def _written(options: Any, recipe: Recipe, policies: tuple[Policy, ...]) -> Job:
    from prefkit.runfolder import hash_value

    job = Job(asked(recipe, options), policies, Path(), {})
    slug = re.sub(r"[^A-Za-z0-9]+", "-", Path(options.target).name or options.target).strip("-").lower()
    return replace(job, folder=options.to or Path("runs") / f"evaluate-{slug}-{hash_value(identity(job))[:10]}")


def _task_recipe(options: Any) -> Recipe:
    from prefkit import recipe
    from prefkit.resources import recipe_paths

    if not options.task:
        names = ", ".join(recipe_paths())
        raise RunError(
            f"{options.target} is no run folder, so it has no task of its own: name a recipe whose task is asked with --task ({names})."
        )
    return recipe.load(options.task)


def _absolute(model: str) -> str:
    """A model's folder by its whole path, so that it is the same model from everywhere; any other name as it is."""
    return str(Path(model).resolve()) if Path(model).is_dir() else model


def asked(recipe: Recipe, options: Any) -> Recipe:
    """The recipe with `--limit` questions of each held-out split, or all of them, and with `--k` samples of each, or its own number."""
    limits = recipe.limits.model_copy(update={"test": options.limit, "unseen": options.limit})
    settings = recipe.evaluate.model_copy(update={"k": options.k or recipe.evaluate.k})
    return recipe.model_copy(update={"limits": limits, "evaluate": settings})


def with_model(recipe: Recipe, name: str) -> Recipe:
    """The recipe with another model."""
    return recipe.model_copy(update={"model": recipe.model.model_copy(update={"name": name})})


def base_of(adapter: Path) -> str:
    """The model that an adapter was trained on, as its folder says. The embedded one is known by its folder's name."""
    try:
        name = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (ValueError, AttributeError) as error:
        raise ModelError(f"{adapter / 'adapter_config.json'} cannot be read ({error}).") from error
    if not name:
        raise ModelError(f"{adapter / 'adapter_config.json'} does not name the model below the adapter; name it with --model.")
    from prefkit.models.embedded import REPOSITORY

    if name == REPOSITORY or Path(name).name.startswith("smollm2-135m-instruct-"):
        return "embedded"
    return name
