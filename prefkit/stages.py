"""The work of each stage: what it reads from the run folder, what it does, what it leaves. `pipeline.py` puts them in order.

Every function takes the run's `Context` and returns the stage's figures; its files are named in pipeline.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from prefkit.context import Context
from prefkit.data import columns, corrections, history, pair_card, pair_checks, pairs, readiness, receipts, trajectories
from prefkit.data.answer_rows import read_answers
from prefkit.data.hard_negatives import HardNegatives
from prefkit.data.rollouts import Request, Row, figures, first_turn, grouped
from prefkit.errors import DataError
from prefkit.evaluate import suites
from prefkit.files import copy_adapter
from prefkit.tasks.base import Example
from prefkit.tasks.names import HELD_OUT

POLICIES = ("base", "references", "own_pairs", "calibrated")
LONGEST_ROW = 1024
PROBES = 4
"""Answers by which a calibration question shows whether it has signal."""


def take_start(context: Context) -> Row:
    """The adapter that the run goes on from, copied, so that the run stays whole whatever becomes of the other."""
    with context.run.new_folder("start/adapter") as target:
        copy_adapter(Path(context.recipe.model.adapter or ""), target)
    return {"bytes": context.run.file("start/adapter/adapter_model.safetensors").stat().st_size}


def take_history(context: Context) -> Row:
    """The rows out of production: answers and verdicts as they were ingested, pairs with this model's token ids."""
    folders = [history.Ingested.read(folder) for folder in context.recipe.task.ingested_folders]
    rollouts, verdicts, given, turns = (
        [row for folder in folders for row in folder.rows(name)] for name in ("rollouts", "verdicts", "pairs", "trajectories")
    )
    kept, counts = history.trainable(given, context.tokenize, LONGEST_ROW)
    context.keep("history", rollouts, verdicts)
    context.run.write_rows("pairs/history.parquet", kept)
    context.run.write_rows("trajectories/history.parquet", turns)
    return {**figures(rollouts, verdicts), "questions": len(context.ingested), "trajectories": len(turns), **counts}


def check_readiness(context: Context) -> Row:
    """Golds pass their verifier, planted answers do not, and what the base model can do on questions nobody trains on."""
    task, parts = context.task, context.parts
    questions = {split: len(task.load(split)) for split in task.splits}
    every = task.every()
    faults = readiness.gold_faults(task, every, context.scheduler)
    held_out = [example for split in ("test", "unseen") for example in context.held_out(split)]
    passed, planted = readiness.planted_passes(task, held_out, context.scheduler)
    rows, verdicts = context.answer("readiness", first_turn(task, parts.readiness), context.sampling(context.start, 4, 1.0))
    context.keep("readiness", rows, verdicts)
    context.one_kind(verdicts, "readiness")
    result = readiness.readiness(rows, verdicts, faults, questions, len(every), context.recipe.calibrate.k)
    result.update(planted=planted, planted_passed=passed, parts=parts.counts)
    context.run.write_json("readiness.json", result)
    if result["verdict"] == "fix the data" and len(faults) > len(every) // 5:
        raise DataError(f"{result['advice']} `readiness.json` in {context.run.path} lists the first ones.")
    return shown_readiness(result)


def shown_readiness(result: Row) -> Row:
    """What the manifest keeps of readiness.json."""
    return {key: value for key, value in result.items() if isinstance(value, int | float | str) and key != "advice"}


def make_rollouts(context: Context, index: int) -> Row:
    """Answers of the policy before round `index` to the round's questions."""
    adapter = context.warm_adapter(index - 1)
    turn = context.recipe.warm_start.rounds[index]
    examples = context.round_examples(index)
    if turn.source == "references":
        examples = context.task.subset(examples, turn.sampled, context.recipe.seed)
    requests = first_turn(context.task, examples)
    rows, verdicts = context.answer(context.stage, requests, context.sampling(adapter, turn.k, context.recipe.rollouts.temperature))
    context.keep(context.stage, rows, verdicts)
    return figures(rows, verdicts)


def make_corrections(context: Context, index: int) -> Row:
    """Further turns to wrong answers of round `index`, and as many fresh answers, as trajectories."""
    settings, adapter = context.recipe.corrections, context.warm_adapter(index - 1)
    tried = corrected_questions(context, index)
    first = context.kept(f"rollouts-{index}")
    found = corrections.failures(tried, *first)
    rows: list[Row] = []
    verdicts: list[Row] = []

    def ask(part: str, requests: list[Request], k: int) -> tuple[list[Row], list[Row]]:
        sampling = context.sampling(adapter, k, context.recipe.rollouts.temperature)
        answers = context.answer(context.stage, requests, sampling, part=part)
        rows.extend(answers[0])
        verdicts.extend(answers[1])
        return answers

    corrections.correct(context.task, found, settings.turns, partial(ask, k=settings.tries))
    corrections.draw_fresh(context.task, found, partial(ask, k=settings.tries * settings.turns))
    if context.recipe.warm_start.rounds[index].source == "references":
        corrections.close_with_references(found, context.tokenize)
    context.keep(context.stage, rows, verdicts)
    context.one_kind([*first[1], *verdicts], f"the corrections of round {index}")
    turns, repairs = [one.row() for one in found], [pair for one in found if (pair := one.pair())]
    context.keep_training(f"trajectories/round-{index}.parquet", turns, columns.trajectories())
    context.keep_training(f"pairs/corrections-{index}.parquet", repairs, columns.pairs())
    return correction_figures(turns, repairs, rows, verdicts)


def corrected_questions(context: Context, index: int) -> list[Example]:
    """The questions of round `index` whose wrong answers get further turns."""
    return context.task.subset(context.round_examples(index), context.recipe.corrections.questions, context.recipe.seed)


def correction_figures(turns: Sequence[Row], repairs: Sequence[Row], rollouts: Sequence[Row], verdicts: Sequence[Row]) -> Row:
    """The figures of a stage of corrections, from the rows of its trajectories, of its pairs, and of its own answers."""
    drawn = figures(rollouts, verdicts)
    counted = ("answers", "duplicates", "truncated", "tokens", "verifier_calls", "not_judged")
    return {**trajectories.figures(turns, repairs), **{name: drawn[name] for name in counted}}


def make_pairs(context: Context, index: int) -> Row:
    """The training rows of round `index`, and after the last round the card of all rounds."""
    recipe, turn, task, name = context.recipe, context.recipe.warm_start.rounds[index], context.task, f"pairs-{index}"
    rollouts, verdicts = read_answers(context.run, f"rollouts-{index}")
    context.one_kind(verdicts, f"the pairs of round {index}")
    examples, tokenize = context.round_examples(index), context.tokenize
    repaired = context.run.read_rows(f"pairs/corrections-{index}.parquet") if recipe.corrects(index) and recipe.corrections.train else []
    end_id = tokenize([{"messages": [{"role": "user", "content": "?"}], "answers": [""]}])[0]["answer_ids"][0][-1]
    wanted = recipe.pairs
    settings = pairs.Settings(wanted.strategy, wanted.per_prompt, LONGEST_ROW, end_id, recipe.seed, tuple(wanted.fallback))
    negatives = HardNegatives(name, task, context.scheduler, tokenize, wanted.mutations, recipe.seed) if wanted.mutations else None

    if turn.source == "references":
        rows, counts = pairs.reference_pairs(task, examples, rollouts, verdicts, settings, tokenize, repaired, negatives)
    else:
        rows, counts = pairs.own_pairs(examples, rollouts, verdicts, repaired, settings, tokenize, _logged(context), negatives)
    if index == history.round_of(recipe.warm_start.rounds) and recipe.task.ingested_folders:
        rows, counts = history.joined(rows, counts, context.run.read_rows("pairs/history.parquet"))
        counts |= pair_checks.figures(rows)
    if not rows and context.warm_adapter(index - 1) is None:
        raise DataError(
            f"no pair could be made in round 0: {counts}. The model answers nothing right here: begin with a round on references, or "
            "choose a stronger model with --model."
        )
    counts |= leakage(context, rows)
    counts["warnings"] = pair_checks.warnings(counts)
    for warning in counts["warnings"]:
        context.progress.say(f"note: {warning}")
    context.keep_training(f"pairs/round-{index}.parquet", rows, columns.pairs())
    if negatives:
        context.keep(name, negatives.rollouts, negatives.verdicts)
    if index == len(recipe.warm_start.rounds) - 1:
        entries = context.run.manifest["stages"]
        before = [(entries.get(f"pairs-{number}") or {}).get("figures") or {} for number in range(index)]
        context.run.write_text("pairs/README.md", card_of_pairs(context, [*before, counts]))
    return counts


def leakage(context: Context, rows: Sequence[Row]) -> Row:
    """What pairs share with the questions that measure."""
    task = context.task
    questions = {example.id: example.question for example in task.every()}
    held_out = [example for split in HELD_OUT if split in task.splits for example in task.load(split)]
    return pair_checks.leakage(rows, questions, held_out)


def card_of_pairs(context: Context, rounds: Sequence[Row]) -> str:
    """The text of pairs/README.md. rounds: the figures of the pairs of every round, in order."""
    recipe = context.recipe
    settings = {**recipe.pairs.model_dump(), "seed": recipe.seed, "longest row in tokens": LONGEST_ROW}
    return pair_card.text(context.task.name, recipe.model.name, settings, rounds)


def _logged(context: Context) -> tuple[list[Row], list[Row]]:
    """Rollouts and verdicts of logged answers, where this run has any and may choose them."""
    there = "history" in context.recipe.pairs.fallback and context.run.file("rollouts/history.parquet").is_file()
    return context.kept("history") if there else ([], [])


def train_warm_start(context: Context, index: int) -> Row:
    """One round of DPO with the NLL term. A later round without pairs hands the adapter on unchanged, and says so."""
    turn = context.recipe.warm_start.rounds[index]
    before = context.warm_adapter(index - 1)
    if before and not context.run.read_rows(f"pairs/round-{index}.parquet"):
        shutil.copytree(before, context.run.file(f"warm_start/round-{index}/adapter"), dirs_exist_ok=True)
        return {"rows": 0, "steps": 0, "tokens": 0, "changed_share": 0.0, "note": "no pairs: the adapter is handed on unchanged"}
    lora = context.recipe.model.lora
    return context.train(
        "warm_start",
        {
            "model": context.model,
            "lora": {"rank": lora.rank, "alpha": lora.alpha, "targets": lora.targets},
            "adapter": before,
            "pairs": str(context.run.file(f"pairs/round-{index}.parquet")),
            "output": str(context.run.file(f"warm_start/round-{index}")),
            "settings": {**turn.model_dump(exclude={"source", "k"}), "save_every": 25},
            "seed": context.recipe.seed,
        },
    )


def adapter_in(context: Context, folder: str) -> str:
    return str(context.run.file(folder))


def make_calibrate_rollouts(context: Context) -> Row:
    """Which of the questions kept for calibration have signal: the selected warm start answers each a few times."""
    start = adapter_in(context, context.run.read_json("select-warm.json")["adapter"])
    requests = first_turn(context.task, context.parts.calibrate)
    rows, verdicts = context.answer(context.stage, requests, context.sampling(start, PROBES, context.recipe.calibrate.temperature))
    context.keep(context.stage, rows, verdicts)
    context.one_kind(verdicts, "the choice of questions for calibration")
    return figures(rows, verdicts)


def with_signal(context: Context) -> list[Example]:
    """The calibration questions with right and wrong answers; all where there are fewer than one step takes.

    A group whose answers are all right or all wrong has no advantage, yet costs as much as any other.
    """
    groups = grouped(*context.kept("rollouts-calibrate"))
    mixed = {name for name, group in groups.items() if len({verdict["score"] for _, verdict in group} & {0, 1}) == 2}
    examples = [example for example in context.parts.calibrate if example.id in mixed]
    return examples if len(examples) >= context.recipe.calibrate.prompts else list(context.parts.calibrate)


def train_calibrate(context: Context) -> Row:
    """Online GRPO from the selected warm start, on questions where it is sometimes right."""
    recipe, task = context.recipe, context.task
    examples = with_signal(context)
    prompts = [
        {
            "name": example.id,
            "messages": task.prompt(example),
            "golds": list(example.golds),
            "database": example.database,
            "databases": [str(path) for path in task.databases[example.database]],
        }
        for example in examples
    ]
    start = adapter_in(context, context.run.read_json("select-warm.json")["adapter"])
    settings = {
        **recipe.calibrate.model_dump(),
        "keep": recipe.calibrate.steps,
        "max_new_tokens": recipe.rollouts.max_new_tokens,
        "timeout_s": recipe.task.timeout_s,
        "mix": recipe.judge.mix,
    }
    result = context.train(
        "calibrate",
        {
            "model": context.model,
            "adapter": start,
            "prompts": prompts,
            "output": str(context.run.file("calibrate")),
            "settings": settings,
            "seed": recipe.seed,
            "cache": None,
        },
    )
    return {**result, "prompts": len(prompts), "verifier_calls": recipe.calibrate.steps * recipe.calibrate.prompts * recipe.calibrate.k}


def policy_adapters(context: Context) -> dict[str, str | None]:
    """The adapter of each policy that is measured."""
    run = context.run
    return {
        "earlier" if context.start else "base": context.start,
        "references": context.warm_adapter(0),
        "own_pairs": adapter_in(context, run.read_json("select-warm.json")["adapter"]),
        "calibrated": adapter_in(context, run.read_json("select-final.json")["kept"]),
    }


def evaluate(context: Context) -> Row:
    """Every policy on the held-out questions, greedy and sampled."""
    splits = [split for split in ("test", "unseen") if split in context.task.splits]
    examples = [example for split in splits for example in context.held_out(split)]
    totals = {split: len(context.task.load(split)) for split in splits}
    answers = measure(context, policy_adapters(context), examples)
    return write_evaluation(context, answers, totals, costs(context.run.manifest["stages"]))


def measure(context: Context, adapters: dict[str, str | None], examples: Sequence[Example]) -> list[Row]:
    """Answer rows of every policy to `examples`. Two policies with one adapter are asked once."""
    settings = context.recipe.evaluate
    rows: list[Row] = []
    asked: dict[str | None, list[Row]] = {}
    for policy, adapter in adapters.items():
        if adapter not in asked:
            sampling = context.sampling(adapter, settings.k, settings.temperature, greedy=True)
            found = context.answer(f"{context.stage}/{policy}", first_turn(context.task, examples), sampling, stream="evaluation")
            asked[adapter] = [answer_row(*pair) for pair in zip(*found, strict=True)]
        rows += answer_rows(policy, asked[adapter], examples)
    return rows


def answer_rows(policy: str, rows: Sequence[Row], examples: Sequence[Example]) -> list[Row]:
    """The rows with the policy that answered, the question and its gold, and the hash of their content."""
    by_id = {example.id: example for example in examples}
    asked = [(row, by_id[row["example_id"]]) for row in rows]
    return receipts.sealed(
        ({"policy": policy, **row, "question": example.question, "gold": example.golds[0]} for row, example in asked), receipts.ANSWER
    )


def answer_row(row: Row, verdict: Row) -> Row:
    from prefkit.verify.extract import extract_sql

    shared = ("split", "example_id", "database", "level", "k", "completion", "model", "adapter", "template")
    return {
        **{name: row[name] for name in shared},
        "kind": "sample" if row["temperature"] else "greedy",
        "sql": extract_sql(row["completion"]),
        "tokens": len(row["completion_ids"]),
        "ended": row["ended"],
        **{name: verdict[name] for name in ("status", "score", "reason", "key", "trust", "versions", "data_hash")},
    }


def write_evaluation(context: Context, answers: list[Row], totals: dict[str, int], spent: dict[str, dict[str, float]]) -> Row:
    """Write answers, evaluation.json and ledger.json. `spent`: what each policy cost. Returns the figures of the stage."""
    settings, run = context.recipe.evaluate, context.run
    evaluation = suites.evaluation(answers, totals, settings.k, settings.temperature, context.recipe.judge.mix)
    run.write_rows("evaluation/answers.parquet", answers)
    run.write_json("evaluation.json", evaluation)
    run.write_json("ledger.json", suites.ledger(answers, spent))
    return {"answers": len(answers), "tokens": sum(row["tokens"] for row in answers), "verifier_calls": len(answers)}


def costs(entries: Mapping[str, Row]) -> dict[str, dict[str, float]]:
    """What each policy cost to make beyond the one before it: seconds, tokens, verifier calls, from the manifest's entries of stages."""
    belongs = {
        "references": lambda name: name.endswith("-0"),
        "own_pairs": lambda name: name[-2:-1] == "-" and name[-1:].isdigit() and not name.endswith("-0"),
        "calibrated": lambda name: name in ("select-warm", "rollouts-calibrate", "calibrate", "select-final"),
    }
    return {
        policy: {
            "seconds": round(sum(entry["seconds"] for name, entry in entries.items() if mine(name) and "seconds" in entry), 1),
            **{
                figure: sum((entry.get("figures") or {}).get(figure) or 0 for name, entry in entries.items() if mine(name))
                for figure in ("tokens", "verifier_calls")
            },
        }
        for policy, mine in belongs.items()
    }


def write_report(context: Context) -> Row:
    """report.html and report.md."""
    from prefkit.report import html_report

    html_report.write(context.run)
    return {"bytes": context.run.file("report.html").stat().st_size, "writer": html_report.writer()}
