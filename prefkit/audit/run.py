"""`audit`: everything that can be checked of a run without its model, in order."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from prefkit import stages
from prefkit.audit import figures, manifest, rendering
from prefkit.audit.facts import Facts, read_answers
from prefkit.context import Context, load_task, task_identity
from prefkit.data import audit as execution
from prefkit.data import audit_pairs, audit_turns, readiness
from prefkit.data import audit_rows as rows
from prefkit.data.audit import Item
from prefkit.data.audit_read import Reader
from prefkit.data.findings import Findings, listed
from prefkit.errors import PrefkitError
from prefkit.hashing import hash_value
from prefkit.progress import Progress, quiet
from prefkit.recipe import Recipe
from prefkit.runfolder import RunFolder
from prefkit.tasks.base import Example
from prefkit.tasks.sql import SqlTask
from prefkit.verify.scheduler import Scheduler

Data = tuple[list[str], str] | None
"""The user's databases and questions where they lie now; None takes the places that recipe.yaml names."""
MEASURED = "seconds, processor time and memory: what one machine measured once"
WEIGHTS = "training itself: adapters against the rows they were trained on, rewards of the online steps (their answers are not kept)"


def audit(
    path: str | Path,
    scheduler: Scheduler,
    *,
    sample: int | None = None,
    seed: int = 0,
    data: Data = None,
    progress: Progress | None = None,
) -> Findings:
    """Check a run, or a folder that `prefkit evaluate` made, and the evaluations inside it.

    scheduler: executes; one with a cache file would take verdicts from there. sample: how many answers to execute again, drawn with
    `seed`; None is all. data: where the user's own data lies now. Nothing is written. RunError where `path` is no run folder.
    """
    run = manifest.existing(path)
    shown = progress or quiet()
    facts = _facts(run, Findings(), data)
    facts.findings.skip(MEASURED)
    spent = _check(facts, scheduler, sample, seed, shown, {})
    for inner in sorted(run.path.glob("evaluation-*/manifest.json")):
        folder = inner.parent.relative_to(run.path).as_posix()
        try:
            part = _facts(manifest.existing(inner.parent), Findings(), data)
        except PrefkitError as error:
            facts.findings.add("files", folder, "", ("manifest", "one that can be read", str(error)))
            continue
        _check(part, scheduler, sample, seed, shown, spent)
        facts.findings.take(part.findings, folder)
    return facts.findings


def _facts(run: RunFolder, findings: Findings, data: Data) -> Facts:
    """Read manifest, recipe and task."""
    reader = Reader(run, findings)
    entries = manifest.stages(run, findings)
    recipe, whole = manifest.read_recipe(reader)
    task, identity = _task(run, recipe, findings, data) if recipe is not None else (None, "")
    examples = manifest.by_id(task) if task is not None else {}
    known = rows.Known(task, examples, {}, recipe.model.name if recipe else "", recipe.seed if recipe else 0)
    if recipe is not None:
        turns = enumerate(recipe.warm_start.rounds)
        known.on_references = frozenset(f"rollouts-{number}" for number, turn in turns if turn.source == "references")
    context = None
    if recipe is not None and task is not None:
        nothing: object = None  # neither model nor writer: what a recipe takes of the task is read from the two alone
        context = Context(recipe, run, task, nothing, nothing, quiet())  # type: ignore[arg-type]
    facts = Facts(reader, recipe, context, known, entries)
    if recipe is not None and not _is_evaluation(facts):
        before = manifest.gone_on_from(reader)
        manifest.check_complete(recipe, before, entries, findings)
        if task is not None and whole:
            manifest.check_inputs(recipe, before, identity, entries, findings)
    facts.metrics = manifest.read_metrics(reader, entries)
    return facts


def _is_evaluation(facts: Facts) -> bool:
    """Whether `prefkit evaluate` made the folder."""
    return set(facts.entries) == {"evaluate"}


def _task(run: RunFolder, recipe: Recipe, findings: Findings, data: Data) -> tuple[SqlTask | None, str]:
    """The task with its data, and its identity; None after a finding. Without it, rows are compared with each other alone."""
    strange = [] if data else manifest.relative_places(run)
    refused = f"no whole path: {listed(strange)}" if strange else manifest.check_data_places(recipe, run)
    if data:
        recipe = recipe.model_copy(update={"task": recipe.task.model_copy(update={"database": data[0], "questions": data[1]})})
    if refused is None:
        try:
            task = load_task(recipe)
            return task, hash_value(task_identity(task))
        except (PrefkitError, OSError, ValueError, KeyError, TypeError, AttributeError, sqlite3.Error) as error:
            refused = str(error) or type(error).__name__  # an ingested folder of odd shape raises whatever its reader does
    findings.row("databases", "recipe.yaml", "task", [("data of the task", "files that can be read", refused)])
    findings.skip("execution of answers, and their questions: the task's data cannot be used")
    return None, ""


def _check(facts: Facts, scheduler: Scheduler, sample: int | None, seed: int, progress: Progress, spent: Mapping) -> Mapping:
    """All checks of one folder. spent: what the policies cost, where another folder's manifest says it. Returns what they cost."""
    findings, run = facts.findings, facts.reader.run
    manifest.check_files(facts.reader, facts.entries, whole=sample is None)
    _read(facts)
    _execute(facts, scheduler, sample, seed, progress)
    for part in facts.rollouts.values():
        rows.check_rollouts(facts.reader, part, facts.known)
    for rel in _files(run, "trajectories"):
        _check_trajectories(facts, rel)
    for rel in _files(run, "pairs"):
        facts.pairs[rel] = audit_pairs.check_pairs(facts.reader, rel, facts.known)
    again = figures.stage_figures(facts)
    if not _is_evaluation(facts):
        spent = stages.costs(facts.entries_with(again))
    if "evaluate" in facts.entries:
        made = figures.check_evaluation(facts, spent)
        if made is not None and not _is_evaluation(facts):
            rendering.check_report(facts, *made, again)
            rendering.check_card(facts, again)
    if not _is_evaluation(facts):
        findings.skip(WEIGHTS)
    if lacking := facts.reader.lacking:
        files = {rel for those in lacking.values() for rel in those}
        findings.skip(f"files with rows of an older version, which lack {', '.join(lacking)}", len(files))
    return spent


def _check_trajectories(facts: Facts, rel: str) -> None:
    """Trajectories of a round, or out of production."""
    kind, _, number = Path(rel).stem.rpartition("-")
    if Path(rel).stem == rows.HISTORY:
        facts.trajectories[rel] = audit_turns.check_logged(facts.reader, rel, facts.known)
        return
    first, later = (facts.rollouts.get(f"{stage}-{number}") for stage in ("rollouts", "corrections"))
    if first is None or later is None or kind != "round" or not number.isdigit():
        facts.findings.skip(f"trajectories whose rollouts cannot be read: {rel}")
        return
    context, tried = facts.context, None
    if context is not None and int(number) < len(context.recipe.warm_start.rounds):
        tried = stages.corrected_questions(context, int(number))
    made = audit_turns.check_trajectories(facts.reader, rel, facts.known, (first, later), tried)
    if made is not None:
        facts.trajectories[rel], facts.repairs[later.stage] = made
        facts.known.repairs[later.stage] = {row["id"]: row for row in made[1]}


def _files(run: RunFolder, folder: str) -> list[str]:
    return [path.relative_to(run.path).as_posix() for path in sorted(run.path.glob(f"{folder}/*.parquet"))]


def _read(facts: Facts) -> None:
    run = facts.reader.run
    facts.known.adapters.update(manifest.adapters(facts.reader, facts.entries))
    for rel in _files(run, "rollouts"):
        stage = Path(rel).stem
        facts.rollouts[stage] = rows.read_rollouts(facts.reader, stage, facts.known)
    for rel in _files(run, "evaluation"):
        facts.answers[rel] = read_answers(facts, rel)
        if (stage := Path(rel).stem).startswith("select-"):
            figures.validation_complete(facts, stage, facts.answers[rel])


def _execute(facts: Facts, scheduler: Scheduler, sample: int | None, seed: int, progress: Progress) -> None:
    """Execute all answers, or those drawn, and the golds."""
    context = facts.context
    if context is None:
        return
    task = context.task
    items = [item for part in (*facts.rollouts.values(), *facts.answers.values()) for item in part.items]
    usable = [item for item in items if item.example.gold and item.example.database in task.databases]
    if len(usable) < len(items):
        facts.findings.skip("answers to questions or on databases that the task does not have", len(items) - len(usable))
    usable += _references(facts)
    execution.execute(execution.drawn(usable, sample, seed, facts.findings), task, scheduler, facts.findings, progress)
    if "readiness" in facts.entries:
        if sample is not None:
            facts.findings.skip("golds and planted answers of the readiness check (--sample)")
            return
        every = task.every()
        held_out = [example for split in ("test", "unseen") for example in context.held_out(split)]
        progress.say("golds and planted answers of the readiness check")
        facts.gold_faults = readiness.gold_faults(task, every, scheduler)
        facts.planted = readiness.planted_passes(task, held_out, scheduler)
        facts.findings.checked["golds"] += len(every)


def _references(facts: Facts) -> list[Item]:
    """The golds that stand in training rows, as answers that must pass."""
    names: dict[str, tuple[str, str]] = {}
    for folder, columns in (("pairs", audit_pairs.LOGGED), ("trajectories", audit_turns.LOGGED)):
        for rel in _files(facts.reader.run, folder):
            for row in Reader(facts.reader.run, Findings()).rows(rel, columns):  # what is wrong with the file is said where it is checked
                if row.get("source") == "reference" or row.get("end") == "reference":
                    names.setdefault(row["example_id"], (rel, row["id"]))
    written = {"status": "PASS", "score": 1.0, "reason": "same rows", "key": None}
    return [Item("references", *names[name], example, example.golds[0], written) for name, example in _examples(facts, names)]


def _examples(facts: Facts, names: Mapping[str, object]) -> list[tuple[str, Example]]:
    return [(name, facts.known.examples[name]) for name in names if name in facts.known.examples]
