"""Training curves out of metrics.jsonl, few enough points to draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from prefkit.report.source import Source, stage_order, stage_words

MOST_POINTS = 120

# Metrics that share one pair of axes, with a title, a unit ("%" for shares), and what to beware of.
GROUPS: tuple[tuple[tuple[tuple[str, str], ...], str, str, str], ...] = (
    (
        (("validation_greedy", "greedy"), ("validation_samples", "samples")),
        "Validation accuracy",
        "%",
        "On validation questions, which also choose the checkpoint: good for comparing steps, too favourable as a result.",
    ),
    ((("loss", "loss"),), "Training loss", "", "What training minimises; a lower loss alone does not mean more right answers."),
    ((("rewards/accuracies", "share"),), "Right answer preferred", "%", "Share of training pairs in which the right side is preferred."),
    (
        (("reward", "reward"),),
        "Mean reward",
        "",
        "Each step asks other questions, so a rise or fall between steps is no measure of progress.",
    ),
    ((("kl", "KL"),), "KL to the start", "", "How far the policy has moved from the one that calibration began with."),
    ((("frac_reward_zero_std", "share"),), "Groups without signal", "%", "Groups whose answers are all right or all wrong teach nothing."),
)


@dataclass(frozen=True, slots=True)
class Curve:
    """One chart: a metric of one stage, or two that share an axis.

    ``lines`` holds (label, points); ``averaged`` is how many steps one drawn point stands for.
    """

    title: str
    stage: str
    unit: str
    note: str
    lines: list[tuple[str, list[tuple[float, float]]]]
    averaged: int


def curves(source: Source) -> list[Curve]:
    """The curves of every stage in the order of the stages; a metric with fewer than two finite values is left out."""
    found = []
    # A selection's "steps" are candidates, which stand in a table.
    stages = {stage for row in source.metrics if not (stage := str(row.get("stage"))).startswith("select-")}
    for stage in sorted(stages, key=stage_order):
        for metrics, title, unit, note in GROUPS:
            lines, averaged = [], 1
            for metric, label in metrics:
                points = _points(source, stage, metric)
                if len(points) >= 2:
                    averaged = max(averaged, math.ceil(len(points) / MOST_POINTS))
                    lines.append((label, thin(points)))
            if lines:
                found.append(Curve(title, stage_words(stage), unit, note, lines, averaged))
    return found


def thin(points: Sequence[tuple[float, float]], most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """At most ``most`` points: neighbours are averaged, step and value alike, so that no peak is picked."""
    size = math.ceil(len(points) / most)
    if size <= 1:
        return list(points)
    blocks = [points[start : start + size] for start in range(0, len(points), size)]
    return [(sum(x for x, _ in block) / len(block), sum(y for _, y in block) / len(block)) for block in blocks]


def _points(source: Source, stage: str, metric: str) -> list[tuple[float, float]]:
    points = {}
    for row in source.metrics:
        value, step = row.get(metric), row.get("step")
        if row.get("stage") == stage and _finite(value) and _finite(step):
            points[float(step)] = float(value)  # type: ignore[arg-type]  # a step logged twice counts once: the later line
    return sorted(points.items())


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
