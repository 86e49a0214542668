"""Everything the report says, as plain values: the page and the Markdown are two dresses of this one content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefkit.evaluate.words import (
    effect,
    effect_words,
    interval_words,
    percent,
    points,
    policy_words,
    split_words,
    step_words,
)
from prefkit.report.curves import Curve, curves
from prefkit.report.examples import Example, examples
from prefkit.report.funnel import Choice, Round, StageCounts, choices, funnel, rounds
from prefkit.report.notes import FEW, notes
from prefkit.report.repairs import Repairs, repair_tables
from prefkit.report.source import Source, stage_words
from prefkit.report.text import duration, number

VERDICT_TITLES = {
    "improved": "Training helped",
    "no change": "No change shown",
    "worse": "Training made the model worse",
    "mixed": "Mixed: some figures rose, others fell",
}


@dataclass(frozen=True, slots=True)
class Score:
    """A share with its interval; ``few`` where it rests on fewer than FEW questions."""

    mean: str
    interval: str
    n: int
    few: bool
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Gain:
    """A paired gain: ``effect`` is gain, nothing, same, loss or unknown; ``words`` what it may be called."""

    effect: str
    mean: str
    interval: str
    words: str
    p: str
    won: int
    lost: int
    before: str
    after: str
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One step, or everything together, with its two gains side by side and its cost."""

    step: str
    name: str
    total: bool
    greedy: Gain | None
    samples: Gain | None
    cost: dict[str, str]


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """The scores of one policy; ``look`` is base, middle or final."""

    name: str
    look: str
    greedy: Score
    samples: Score
    pass_at_k: Score


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One level or one database: the scores before and after training, each in both measures."""

    name: str
    n: int
    few: bool
    before_greedy: Score
    before_samples: Score
    after_greedy: Score
    after_samples: Score


@dataclass(frozen=True, slots=True)
class FailureRow:
    """One kind of failure: how many first answers before and after."""

    kind: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class SplitPart:
    """What the report says about one split."""

    name: str
    words: str
    questions: int
    of: int
    verdict: str
    sentence: str
    total: LedgerRow | None
    ledger: list[LedgerRow]
    policies: list[PolicyRow]
    levels: list[GroupRow]
    databases: list[GroupRow]
    failures: list[FailureRow]


@dataclass(frozen=True, slots=True)
class Content:
    """The whole report."""

    recipe: str
    about: str
    run: str
    created: str
    prefkit: str
    verdict: str
    title: str
    sentence: str
    k: int
    temperature: str
    before: str
    after: str
    compared: bool
    splits: list[SplitPart]
    tiles: list[tuple[str, str]]
    stages: list[tuple[str, str, str, str]]
    cost_keys: list[tuple[str, str]]
    rounds: list[Round]
    funnel: list[StageCounts]
    choices: list[Choice]
    repairs: list[Repairs]
    curves: list[Curve]
    examples: list[Example]
    drawn_from: int
    seed: int
    notes: list[tuple[str, str]]
    versions: list[tuple[str, str]]
    seeds: list[tuple[str, str]]
    recipe_text: str
    few: int = FEW


COSTS = (("seconds", "Time"), ("tokens", "Tokens"), ("verifier_calls", "Answers checked"))


def content(source: Source) -> Content:
    """The report's content out of the run's files."""
    headline = source.ledger["headline"]
    shown, drawn_from = examples(source)
    keys = {key for entry in source.ledger["entries"] for key in entry.get("cost") or {}}
    policies = source.policies
    return Content(
        recipe=str(source.recipe.get("name") or source.name),
        about=str(source.recipe.get("title") or ""),
        run=source.name,
        created=str(source.manifest.get("created") or ""),
        prefkit=_installed(source.manifest.get("prefkit")),
        verdict=headline["verdict"],
        title=_title(source),
        sentence=headline["sentence"],
        k=int(source.evaluation["k"]),
        temperature=f"{source.evaluation['temperature']:g}",
        before=policy_words(policies[0]),
        after=policy_words(policies[-1]),
        compared=len(policies) > 1,
        splits=[_split_part(source, split) for split in source.splits],
        tiles=_tiles(source),
        stages=_stages(source),
        cost_keys=[(key, label) for key, label in COSTS if key in keys],
        rounds=rounds(source),
        funnel=funnel(source),
        choices=choices(source),
        repairs=repair_tables(source),
        curves=curves(source),
        examples=shown,
        drawn_from=drawn_from,
        seed=source.seed,
        notes=notes(source),
        versions=_versions(source),
        seeds=[(stage_words(stage), str(entry["seed"])) for stage, entry in source.stages.items() if entry.get("seed") is not None],
        recipe_text=source.recipe_text.strip(),
    )


def _installed(version: object) -> str:
    return "" if version in (None, "", "not installed") else str(version)


def _title(source: Source) -> str:
    """The verdict as a title; "in part" where not every total says it."""
    verdict = str(source.ledger["headline"]["verdict"])
    title = VERDICT_TITLES.get(verdict, verdict)
    wanted = {"improved": "gain", "worse": "loss"}.get(verdict)
    totals = [entry for entry in source.ledger["entries"] if entry["step"] == "total"]
    if not totals:
        return "Scores of one model"
    if {effect(entry["gain"]) for entry in totals} <= {"same", "unknown"}:
        return "No change"
    return f"{title} in part" if wanted and {effect(entry["gain"]) for entry in totals} - {wanted, "unknown"} else title


def _split_part(source: Source, split: str) -> SplitPart:
    scores = source.evaluation["scores"][split]
    size = source.evaluation["splits"][split]
    rows = _ledger_rows(source, split)
    first, last = scores.get(source.policies[0]), scores.get(source.policies[-1])
    own = source.ledger["headline"].get("splits", {}).get(split, {})
    return SplitPart(
        name=split,
        words=split_words(split),
        questions=size["questions"],
        of=size["of"],
        verdict=own.get("verdict", ""),
        sentence=own.get("sentence", ""),
        total=next((row for row in rows if row.total), None),
        ledger=rows,
        policies=[_policy_row(source, policy, scores[policy]) for policy in source.policies if policy in scores],
        levels=_group_rows(first, last, "by_level", "Level "),
        databases=_group_rows(first, last, "by_database", ""),
        failures=_failure_rows(first, last),
    )


def _ledger_rows(source: Source, split: str) -> list[LedgerRow]:
    entries = [entry for entry in source.ledger["entries"] if entry["split"] == split]
    rows = []
    for step in dict.fromkeys(entry["step"] for entry in entries):
        by_measure = {entry["measure"]: entry for entry in entries if entry["step"] == step}
        cost = next(iter(by_measure.values())).get("cost") or {}
        rows.append(
            LedgerRow(
                step=step,
                name=step_words(step),
                total=step == "total",
                greedy=_gain(by_measure.get("greedy")),
                samples=_gain(by_measure.get("samples")),
                cost={key: duration(value) if key == "seconds" else number(value) for key, value in cost.items()},
            )
        )
    return rows


def _gain(entry: Mapping[str, Any] | None) -> Gain | None:
    if entry is None or entry["gain"]["mean"] is None:
        return None
    gain = entry["gain"]
    p = gain.get("p")
    return Gain(
        effect=effect(gain),
        mean=points(gain["mean"]),
        interval=interval_words(gain),
        words=effect_words(gain),
        p="" if p is None else "p < 0.001" if p < 0.001 else f"p = {p:.3f}",
        won=entry["won"],
        lost=entry["lost"],
        before=percent(entry.get("before")),
        after=percent(entry.get("after")),
        raw=gain,
    )


def _policy_row(source: Source, policy: str, scores: Mapping[str, Any]) -> PolicyRow:
    look = "base" if policy == source.policies[0] else "final" if policy == source.policies[-1] else "middle"
    return PolicyRow(policy_words(policy), look, _score(scores["greedy"]), _score(scores["samples"]), _score(scores["pass_at_k"]))


def _score(figure: Mapping[str, Any]) -> Score:
    interval = "" if figure["mean"] is None else interval_words(figure, "percent")
    return Score(percent(figure["mean"]), interval, figure["n"], figure["n"] < FEW, figure)


def _group_rows(first: Mapping[str, Any] | None, last: Mapping[str, Any] | None, key: str, prefix: str) -> list[GroupRow]:
    if not first or not last:
        return []
    rows = []
    for name, after in last[key].items():
        # Parquet and JSON keep a group that only the other policy has as an empty one.
        before = first[key].get(name)
        if before and after:
            n = max(after["greedy"]["n"], after["samples"]["n"])
            figures = [_score(figure) for figure in (before["greedy"], before["samples"], after["greedy"], after["samples"])]
            rows.append(GroupRow(f"{prefix}{name}", n, n < FEW, *figures))
    return rows


def _failure_rows(first: Mapping[str, Any] | None, last: Mapping[str, Any] | None) -> list[FailureRow]:
    before, after = (first or {}).get("failures", {}), (last or {}).get("failures", {})
    kinds = sorted(before.keys() | after.keys(), key=lambda kind: (-(before.get(kind, 0) + after.get(kind, 0)), kind))
    return [FailureRow(kind, before.get(kind, 0), after.get(kind, 0)) for kind in kinds]


def _tiles(source: Source) -> list[tuple[str, str]]:
    total = next((entry.get("cost") or {} for entry in source.ledger["entries"] if entry["step"] == "total"), {})
    tiles = []
    if "seconds" in total:
        tiles.append((duration(total["seconds"]), "for the training steps"))
    whole = sum(entry.get("seconds") or 0 for entry in source.stages.values())
    if whole:
        tiles.append((duration(whole), "for the whole run, evaluation included"))
    if "tokens" in total:
        tiles.append((number(total["tokens"]), "tokens generated or trained on"))
    if "verifier_calls" in total:
        tiles.append((number(total["verifier_calls"]), "answers judged" if source.trust.get("model") else "answers checked by execution"))
    return tiles


def _stages(source: Source) -> list[tuple[str, str, str, str]]:
    rows = []
    for stage, entry in source.stages.items():
        figures = entry.get("figures") or {}
        rows.append(
            (
                stage_words(stage),
                duration(entry.get("seconds")),
                number(figures["tokens"]) if "tokens" in figures else "–",
                number(figures["verifier_calls"]) if "verifier_calls" in figures else "–",
            )
        )
    return rows


def _versions(source: Source) -> list[tuple[str, str]]:
    found: dict[str, list[str]] = {}
    for entry in source.stages.values():
        for name, version in (entry.get("versions") or {}).items():
            if version not in found.setdefault(name, []):
                found[name].append(version)
    return [(name, " then ".join(versions)) for name, versions in sorted(found.items()) if versions != ["not installed"]]
