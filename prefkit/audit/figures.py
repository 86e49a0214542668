"""Every figure of a run, computed again from its rows as they hold after execution: stages, selection, evaluation, ledger.

| figure                                    | from                                                                                    |
|-------------------------------------------|-----------------------------------------------------------------------------------------|
| readiness.json                            | its rollouts and verdicts, all golds and planted answers executed again                 |
| counts of rollouts, corrections, pairs    | their rows; what was dropped, and how much could not be changed, left none              |
| training: rows, steps, losses, rewards    | the pairs and metrics.jsonl                                                             |
| select-*.json                             | the validation answers; in older runs that kept none, from what the files say elsewhere |
| evaluation.json, ledger.json              | the answers, and the stages' entries for the cost                                       |

Seconds, processor time and memory are what one machine measured once: they are compared between files, never measured again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefkit import selection, stages
from prefkit.audit.facts import Answers, Facts, check_complete
from prefkit.data import hard_negatives, pair_checks, readiness
from prefkit.data.findings import ABSENT, extra, listed
from prefkit.data.rollouts import figures
from prefkit.errors import DataError
from prefkit.evaluate import suites
from prefkit.hashing import hash_bytes

Row = dict[str, Any]
EVALUATION = "evaluation/answers.parquet"


def stage_figures(facts: Facts) -> dict[str, Row]:
    """The figures of each stage that can be had again. They are compared with manifest.json; what cannot be had is said."""
    found: dict[str, Row] = {}
    for name, entry in facts.entries.items():
        again = _figures_of(facts, name)
        if again is None:
            facts.findings.skip(f"figures of stages whose files cannot be read: {name}")
            continue
        found[name] = again
        facts.findings.figures("manifest.json", {key: entry["figures"].get(key, ABSENT) for key in again}, again, f"{name}.figures")
        only = [key for key in extra(entry["figures"], again) if name != "report"]  # a report is compared by what it says
        if only:
            facts.findings.skip(f"figures of {name} that its rows do not hold: {listed(only)}", len(only))
    return found


def _figures_of(facts: Facts, name: str) -> Row | None:
    base, _, number = name.rpartition("-")
    if base in ("corrections", "pairs", "warm_start") and not number.isdigit():
        return None
    if name == "readiness":
        return _readiness_figures(facts)
    if base == "rollouts":
        return _rollout_figures(facts, name)
    if base == "corrections":
        return _correction_figures(facts, int(number))
    if base == "pairs":
        return _pair_figures(facts, name, int(number))
    if name == "history":
        return _history_figures(facts)
    if name == "start":
        return {"bytes": weights.stat().st_size} if (weights := facts.reader.path("start/adapter/adapter_model.safetensors")) else None
    if base == "warm_start":
        return _warm_start_figures(facts, name, int(number))
    if name == "calibrate":
        return _calibrate_figures(facts)
    if base == "select":
        return _selection(facts, name)
    if name == "evaluate":
        rows = facts.answers[EVALUATION].rows if EVALUATION in facts.answers else []
        return {"answers": len(rows), "tokens": sum(row["tokens"] for row in rows), "verifier_calls": len(rows)}
    return {}


def _rollout_figures(facts: Facts, name: str) -> Row | None:
    return figures(*facts.rollouts[name].judged) if name in facts.rollouts else None


def _readiness_figures(facts: Facts) -> Row | None:
    """readiness.json anew, which is compared here; and of it what the manifest keeps."""
    written = facts.reader.json("readiness.json")
    if "readiness" not in facts.rollouts or not isinstance(written, dict) or facts.recipe is None:
        return None
    (rows, verdicts), group = facts.rollouts["readiness"].judged, facts.recipe.calibrate.k
    if facts.context is not None and facts.gold_faults is not None and facts.planted is not None:
        task = facts.context.task
        questions = {split: len(task.load(split)) for split in task.splits}
        again = readiness.readiness(rows, verdicts, facts.gold_faults, questions, sum(questions.values()), group)
        again.update(planted=facts.planted[1], planted_passed=facts.planted[0], parts=facts.context.parts.counts)
    else:
        again = readiness.answer_figures(rows, verdicts, group)
    facts.findings.figures("readiness.json", written, again)
    if only := list(extra(written, again)):
        facts.findings.skip(f"figures of readiness.json that were not made again: {listed(only)}", len(only))
    return stages.shown_readiness(again)


def _correction_figures(facts: Facts, number: int) -> Row | None:
    stage = f"corrections-{number}"
    rows, repairs = facts.trajectories.get(f"trajectories/round-{number}.parquet"), facts.repairs.get(stage)
    if rows is None or repairs is None or stage not in facts.rollouts:
        return None
    return stages.correction_figures(rows, repairs, *facts.rollouts[stage].judged)


def _pair_figures(facts: Facts, stage: str, number: int) -> Row | None:
    """Counts of the rows, what they share with questions that measure, the warnings that follow, and what became of mutations."""
    rows = facts.pairs.get(f"pairs/round-{number}.parquet")
    if rows is None or facts.recipe is None or number >= len(facts.recipe.warm_start.rounds):
        return None
    again = pair_checks.figures(rows)
    if facts.context is not None:
        again |= stages.leakage(facts.context, rows)
        again["warnings"] = pair_checks.warnings(again)
    if facts.recipe.pairs.mutations and stage in facts.rollouts:
        again |= hard_negatives.figures(*facts.rollouts[stage].judged)
    return again


def _history_figures(facts: Facts) -> Row | None:
    turns, pairs = facts.trajectories.get("trajectories/history.parquet"), facts.pairs.get("pairs/history.parquet")
    if turns is None or pairs is None or "history" not in facts.rollouts:
        return None
    again = {**figures(*facts.rollouts["history"].judged), "trajectories": len(turns), "pairs": len(pairs)}
    if facts.context is not None:
        again["questions"] = len(facts.context.ingested)
    return again


def _warm_start_figures(facts: Facts, name: str, number: int) -> Row | None:
    rows = facts.pairs.get(f"pairs/round-{number}.parquet")
    if rows is None or facts.recipe is None or number >= len(facts.recipe.warm_start.rounds):
        return None
    turn, losses = facts.recipe.warm_start.rounds[number], _values(facts, name, "loss")
    if not rows and number:
        return {"rows": 0, "steps": 0, "tokens": 0, "changed_share": 0.0}
    kept = [row for row in rows if turn.nll > 0 or row["rejected_ids"]]
    return {
        "rows": len(kept), "steps": len(losses), "tokens": turn.epochs * sum(map(_tokens, kept)),
        "loss_first": losses[0] if losses else None, "loss_last": losses[-1] if losses else None,
    }  # fmt: skip


def _tokens(row: Row) -> int:
    rejected = row["rejected_ids"]
    return len(row["prompt_ids"]) + len(row["chosen_ids"]) + (len(rejected) if rejected and rejected != row["chosen_ids"] else 0)


def _calibrate_figures(facts: Facts) -> Row | None:
    if facts.recipe is None:
        return None
    settings, rewards = facts.recipe.calibrate, _values(facts, "calibrate", "reward")
    kl, without = _values(facts, "calibrate", "kl"), _values(facts, "calibrate", "frac_reward_zero_std")
    again: Row = {
        "steps": settings.steps, "verifier_calls": settings.steps * settings.prompts * settings.k,
        "reward_first": rewards[0] if rewards else None, "reward_last": rewards[-1] if rewards else None, "kl_last": kl[-1] if kl else None,
    }  # fmt: skip
    if without:
        again["groups_with_signal"] = sum(1 - share for share in without) / len(without)
    if "rollouts-calibrate" in facts.rollouts:
        groups: dict[str, set[float | None]] = {}
        for item in facts.rollouts["rollouts-calibrate"].items:
            groups.setdefault(item.example.id, set()).add(item.score)
        mixed = sum(len(scores & {0, 1}) == 2 for scores in groups.values())
        again["prompts"] = mixed if mixed >= settings.prompts else len(groups)
    return again


def _values(facts: Facts, stage: str, metric: str) -> list[float]:
    return [row[metric] for row in facts.steps(stage) if isinstance(row.get(metric), int | float)]


def _selection(facts: Facts, stage: str) -> Row | None:
    """select-*.json anew, which is compared here: scores from the validation answers, the best one chosen, its adapter in place."""
    written = facts.reader.json(f"{stage}.json")
    if not isinstance(written, dict) or facts.recipe is None:
        return None
    scores: Row = written["scores"] if isinstance(written.get("scores"), dict) else {}
    again = {**scores, **_scores_again(facts, stage, scores)}
    found = {name: score.get("value") for name, score in again.items() if isinstance(score, Mapping)}
    values = {name: value for name, value in found.items() if isinstance(value, int | float)}
    if not values or len(values) < len(again):
        facts.findings.row("figures", f"{stage}.json", "scores", [("scores", "a value for each candidate", "none, or no number")])
        return None
    chosen = max(values, key=lambda name: values[name])
    wanted: Row = {"scores": again, "candidates": values, "chosen": chosen, "metric": facts.recipe.select.metric}
    if facts.context is not None:
        wanted["questions"] = len(facts.context.held_out("validation"))
    wanted.update(_adapter_paths(stage, chosen, facts))
    facts.findings.figures(f"{stage}.json", written, wanted)
    shown = [
        {f"validation_{kind}": score[kind] for kind in ("greedy", "samples") if kind in score} for score in (again[name] for name in values)
    ]
    logged = [{key: value for key, value in row.items() if key.startswith("validation_")} for row in facts.steps(stage)]
    facts.findings.figures("metrics.jsonl", logged, shown, row=stage)
    return wanted


def _scores_again(facts: Facts, stage: str, scores: Mapping[str, Any]) -> dict[str, Row]:
    """The scores that can be had again, by candidate; what is only written is said."""
    again: dict[str, Row] = {}
    answers = facts.answers.get(f"evaluation/{stage}.parquet")
    if answers is not None:
        for name in dict.fromkeys(row["policy"] for row in answers.rows):
            again[name] = selection.validation_score([row for row in answers.judged if row["policy"] == name])
    if stage == "select-final":
        warm = facts.reader.json("select-warm.json")
        if isinstance(warm, dict) and isinstance(warm.get("scores"), dict) and warm.get("chosen") in warm["scores"]:
            again["warm_start"] = warm["scores"][warm["chosen"]]
    kept = sum(name not in again for name in scores)
    if kept:
        facts.findings.skip(f"scores of candidates in {stage}.json whose answers were not kept", kept)
    return again


def _adapter_paths(stage: str, chosen: str, facts: Facts) -> Row:
    if stage == "select-warm":
        return {"adapter": "start/adapter" if chosen == "start" else f"warm_start/{chosen}/adapter"}
    warm = facts.reader.json("select-warm.json")
    start = warm.get("adapter") if isinstance(warm, dict) else None
    kept = start if chosen == "warm_start" else f"calibrate/candidates/{chosen}"
    weights = [facts.reader.path(f"{folder}/adapter_model.safetensors") for folder in ("adapter", str(kept))]
    if all(weights):
        first, second = (hash_bytes(path) for path in weights if path is not None)
        problems = [("weights", "those of " + str(kept), "others")] if first != second else []
        facts.findings.row("files", "adapter/adapter_model.safetensors", "", problems)
    return {"adapter": "adapter", "kept": kept}


def check_evaluation(facts: Facts, spent: Mapping[str, Mapping[str, float]]) -> tuple[Row, Row] | None:
    """evaluation.json and ledger.json against the answers as they hold. Returns both as computed again; None where there are no answers."""
    answers, settings = facts.answers.get(EVALUATION), facts.recipe and facts.recipe.evaluate
    if answers is None or not answers.rows or settings is None:
        return None
    totals = _written_totals(facts)
    if facts.context is not None:
        task = facts.context.task
        splits = [split for split in ("test", "unseen") if split in task.splits]
        totals = {split: len(task.load(split)) for split in splits}
        asked = [example for split in splits for example in facts.context.held_out(split)]
        check_complete(facts, answers, asked, greedy=True, k=settings.k)
    rows = answers.judged
    try:
        evaluation, ledger = _evaluation(facts, rows, totals), suites.ledger(rows, spent)
    except (DataError, ValueError) as error:
        facts.findings.add("figures", EVALUATION, "", ("answers", "a score for each", str(error)))
        return None
    for file, again in (("evaluation.json", evaluation), ("ledger.json", ledger)):
        written = facts.reader.json(file)
        if written is None:
            continue
        facts.findings.figures(file, written, again)
        for name in extra(written, again):
            facts.findings.row("figures", file, name, [("figure", "a figure", "the answers give none of this name")])
    return evaluation, ledger


def _evaluation(facts: Facts, rows: list[Row], totals: dict[str, int]) -> Row:
    assert facts.recipe is not None
    settings = facts.recipe.evaluate
    return suites.evaluation(rows, totals, settings.k, settings.temperature, mix=facts.recipe.judge.mix)


def _written_totals(facts: Facts) -> dict[str, int]:
    """How many questions each split has, as evaluation.json says: what holds where there is no task to ask."""
    written = facts.reader.json("evaluation.json")
    splits = written.get("splits") if isinstance(written, dict) else None
    sizes = splits if isinstance(splits, dict) else {}
    return {name: size["of"] for name, size in sizes.items() if isinstance(size, dict) and isinstance(size.get("of"), int)}


def validation_complete(facts: Facts, stage: str, answers: Answers) -> None:
    """Every candidate answered every validation question."""
    if facts.context is not None and facts.recipe is not None and answers.rows:
        select = facts.recipe.select
        check_complete(facts, answers, facts.context.held_out("validation"), greedy=select.greedy, k=select.samples)
