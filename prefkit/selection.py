"""Which adapter goes on: the round that calibration starts from and the final model, both chosen on validation, never on test."""

from __future__ import annotations

from collections.abc import Sequence

from prefkit.context import Context
from prefkit.data.rollouts import Row, first_turn
from prefkit.files import copy_adapter
from prefkit.stages import adapter_in, answer_row, answer_rows
from prefkit.tasks.base import Example


def select_warm(context: Context) -> Row:
    """The round that calibration starts from, chosen on validation; where a run goes on from another, that one's adapter may win."""
    rounds = range(len(context.recipe.warm_start.rounds))
    folders = {"start": "start/adapter"} if context.start else {}
    folders |= {f"round-{index}": f"warm_start/round-{index}/adapter" for index in rounds}
    chosen, result = _validate(context, {name: adapter_in(context, folder) for name, folder in folders.items()}, {})
    result["adapter"] = folders[chosen]
    context.run.write_json("select-warm.json", result)
    return result


def select_final(context: Context) -> Row:
    """The warm start, a checkpoint of calibration, or its end: chosen on validation."""
    warm = context.run.read_json("select-warm.json")
    folders = {"warm_start": warm["adapter"], **_checkpoints(context)}
    known = {"warm_start": warm["scores"][warm["chosen"]]}
    chosen, result = _validate(context, {name: adapter_in(context, folder) for name, folder in folders.items()}, known)
    with context.run.new_folder("adapter") as target:
        copy_adapter(context.run.file(folders[chosen]), target)
    result["adapter"], result["kept"] = "adapter", folders[chosen]
    context.run.write_json("select-final.json", result)
    return result


def _validate(context: Context, candidates: dict[str, str | None], known: dict[str, Row]) -> tuple[str, Row]:
    """The best candidate on validation, by the recipe's metric; the earlier one where two are equal. `known`: scores from before."""
    metric, examples = context.recipe.select.metric, context.held_out("validation")
    scores: dict[str, Row] = {}
    answers: list[Row] = []
    for number, (name, adapter) in enumerate(candidates.items()):
        if name in known:
            score = known[name]
        else:
            given = _validation_answers(context, name, adapter, examples)
            answers += given
            score = validation_score(given)
        scores[name] = score
        context.run.log_metrics(
            context.stage, number, **{f"validation_{kind}": score[kind] for kind in ("greedy", "samples") if kind in score}
        )
    chosen = max(scores, key=lambda name: scores[name]["value"])
    context.run.write_rows(f"evaluation/{context.stage}.parquet", answers)
    return chosen, {
        "candidates": {name: score["value"] for name, score in scores.items()},
        "scores": scores,
        "chosen": chosen,
        "metric": metric,
        "questions": len(examples),
    }


def _validation_answers(context: Context, name: str, adapter: str | None, examples: Sequence[Example]) -> list[Row]:
    """Answer rows of one candidate, as many as the metric needs."""
    select = context.recipe.select
    sampling = context.sampling(adapter, select.samples, 1.0, greedy=select.greedy)
    answers = context.answer(f"{context.stage}/{name}", first_turn(context.task, examples), sampling, stream="validation")
    context.one_kind(answers[1], "the choice on validation")
    return answer_rows(name, [answer_row(*pair) for pair in zip(*answers, strict=True)], examples)


def validation_score(answers: Sequence[Row]) -> Row:
    """The share of right answers by measure, and under `value` the mean of the measures that decide. `answers`: of one candidate."""
    by_measure: dict[str, list[float]] = {}
    for row in answers:
        by_measure.setdefault("samples" if row["kind"] == "sample" else "greedy", []).append(row["score"] or 0)
    score: Row = {measure: sum(values) / len(values) for measure, values in by_measure.items()}
    return {**score, "value": sum(score.values()) / max(len(score), 1)}


def _checkpoints(context: Context) -> dict[str, str]:
    """At most `select.candidates` adapters of calibration, the last one always among them."""
    steps = sorted(int(path.name.split("-")[1]) for path in context.run.file("calibrate/candidates").glob("step-*"))
    count = context.recipe.select.candidates
    if len(steps) > count:
        steps = sorted({steps[round((number + 1) * len(steps) / count) - 1] for number in range(count)})
    return {f"step-{step}": f"calibrate/candidates/step-{step}" for step in steps}
