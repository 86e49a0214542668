"""How many questions and answers became training rows, and which checkpoint was chosen: from the figures that the stages left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefkit.evaluate.words import percent
from prefkit.report.source import IN_ROUNDS, Source, stage_words
from prefkit.report.text import number

# Figure -> (what it counts, the figure it is a part of). Stages may leave others: they are shown under their own names.
KNOWN: dict[str, dict[str, tuple[str, str | None]]] = {
    "rollouts": {
        "prompts": ("Questions asked", None),
        "prompts_with_right": ("with at least one right answer", "prompts"),
        "mixed": ("with right and wrong answers", "prompts"),
        "answers": ("Answers drawn", None),
        "right": ("right", "answers"),
        "unique": ("different from each other", "answers"),
        "duplicates": ("with the verdict of an equal one, executed once", "answers"),
        "truncated": ("cut off at the length limit", "answers"),
        "tokens": ("Tokens generated", None),
    },
    "corrections": {
        "trajectories": ("Questions with a wrong answer that got another turn", None),
        "repaired": ("repaired", "trajectories"),
        "repaired_first_turn": ("in the first turn", "trajectories"),
        "closed_by_reference": ("closed by the reference", "trajectories"),
        "open": ("not repaired", "trajectories"),
        "repaired_share": ("Share repaired", None),
        "fresh_share": ("Share that as many fresh answers solved", None),
        "repair_tries": ("Repairs tried", None),
        "repair_tries_right": ("right", "repair_tries"),
        "correction_rows": ("Training rows from repairs", None),
        "correction_pairs": ("with a wrong repair beside the right one", "correction_rows"),
        "answers": ("Answers drawn, the control's included", None),
        "duplicates": ("with the verdict of an equal one, executed once", "answers"),
        "truncated": ("cut off at the length limit", "answers"),
        "tokens": ("Tokens generated", None),
    },
    "pairs": {
        "rows": ("Training rows kept", None),
        "pairs": ("with a wrong answer beside the right one", "rows"),
        "model": ("right side: the model's own answer", "rows"),
        "reference": ("right side: the reference", "rows"),
        "correction": ("right side: a corrected answer", "rows"),
        "history": ("right side: out of production", "rows"),
        "rejected_mutation": ("wrong side: a right answer with one part changed", "pairs"),
        "rejected_history": ("wrong side: a logged answer", "pairs"),
        "dropped_identical": ("Dropped: both sides the same", None),
        "dropped_long": ("Dropped: too long", None),
        "dropped_end_token": ("Dropped: not exactly one end token", None),
        "dropped_duplicate": ("Dropped: there already", None),
        "prompts_all_right": ("Questions whose answers are all right", None),
        "prompts_none_right": ("Questions without a right answer", None),
        "answers_not_compared": ("Answers beyond those that are compared", None),
        "chosen_longer_share": ("Pairs whose right side is the longer one", None),
        "chosen_longer_by": ("Tokens by which right sides are longer (mean)", None),
        "length_tells_share": ("Pairs that length alone tells apart (chance: half)", None),
        "form_tells_share": ("Pairs that one feature of form tells apart (chance: half)", None),
        "leaked_ids": ("Rows with the id of a held-out question", None),
        "leaked_questions": ("Rows with the words of a held-out question", None),
        "leaked_queries": ("Rows with the query of a held-out question but for its literals", None),
        "mutations_tried": ("Changed right answers executed", None),
        "mutations_wrong": ("found wrong", "mutations_tried"),
        "mutations_passed": ("right all the same", "mutations_tried"),
        "mutations_failed": ("failed to run", "mutations_tried"),
        "mutations_not_judged": ("not judged", "mutations_tried"),
        "mutations_impossible": ("Right answers that could not be changed", None),
        "verifier_calls": ("Answers executed", None),
    },
    "warm_start": {
        "rows": ("Rows trained on", None),
        "steps": ("Steps", None),
        "tokens": ("Tokens trained on", None),
        "loss_first": ("Loss at the first step", None),
        "loss_last": ("Loss at the last step", None),
        "changed_share": ("Adapter values that training changed", None),
    },
    "calibrate": {
        "steps": ("Steps", None),
        "groups_with_signal": ("Groups with right and wrong answers", None),
        "tokens": ("Tokens generated", None),
        "reward_first": ("Mean reward at the first step", None),
        "reward_last": ("Mean reward at the last step", None),
        "kl_last": ("KL to the start at the last step", None),
    },
}


@dataclass(frozen=True, slots=True)
class Count:
    """One line: what, how many, and where it is a ``part`` of a count above it, the part's share (0.25 is 25 %)."""

    label: str
    value: str
    share: float | None
    part: bool


@dataclass(frozen=True, slots=True)
class StageCounts:
    """The counts of one stage."""

    stage: str
    title: str
    counts: list[Count]


def funnel(source: Source) -> list[StageCounts]:
    """The counts of every stage on the way from questions to a trained policy, in order; stages without figures are left out."""
    found = []
    for stage, entry in source.stages.items():
        kind = stage.rpartition("-")[0] if stage.rpartition("-")[0] in IN_ROUNDS else stage
        figures = entry.get("figures") or {}
        if kind in KNOWN and (counts := _counts(KNOWN[kind], figures)):
            found.append(StageCounts(stage, stage_words(stage), counts))
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """One bar of a round's funnel: what, how many, the count in words, and whether it counts training rows (or else questions)."""

    label: str
    count: float
    words: str
    rows: bool


@dataclass(frozen=True, slots=True)
class Round:
    """The way of one round from questions to rows."""

    title: str
    steps: list[Step]


def rounds(source: Source) -> list[Round]:
    """For each round: questions asked, those with a right answer, those with right and wrong ones, training rows, pairs among them."""
    parts = [stage.rpartition("-") for stage in source.stages]
    numbers = sorted({int(number) for kind, _, number in parts if kind in IN_ROUNDS and number.isdigit()})
    found = []
    for place in numbers:
        figures = {kind: source.stages.get(f"{kind}-{place}", {}).get("figures") or {} for kind in IN_ROUNDS}
        asked, pairs = figures["rollouts"], figures["pairs"]
        steps = [
            _step("Questions asked", asked, "prompts", rows=False),
            _step("Questions with at least one right answer", asked, "prompts_with_right", "prompts", rows=False),
            _step("Questions with right and wrong answers", asked, "mixed", "prompts", rows=False),
            _step(f"Training rows kept{_origins(pairs)}", pairs, "rows", rows=True),
            _step("Rows with a wrong answer beside the right one", pairs, "pairs", "rows", rows=True),
        ]
        if kept := [step for step in steps if step is not None]:
            found.append(Round(f"Round {place}", kept))
    return found


def _step(label: str, figures: Mapping[str, Any], key: str, whole: str | None = None, *, rows: bool) -> Step | None:
    if not _is_number(figures.get(key)):
        return None
    of = f" ({percent(figures[key] / figures[whole])})" if whole and figures.get(whole) else ""
    return Step(label, figures[key], f"{number(figures[key])}{of}", rows)


def _origins(pairs: Mapping[str, Any]) -> str:
    named = {"model": "own", "reference": "reference", "correction": "corrected", "history": "from production"}
    parts = [f"{number(pairs[key])} {word}" for key, word in named.items() if _is_number(pairs.get(key)) and pairs[key]]
    return f": {', '.join(parts)}" if parts else ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate of a selection with its validation scores; a figure that was not measured is a dash."""

    name: str
    greedy: str
    samples: str
    value: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """One selection on validation questions: how many (None: not recorded), by what, among whom."""

    title: str
    questions: int | None
    metric: str
    candidates: list[Candidate]


METRIC_WORDS = {"greedy": "first answers", "samples": "sampled answers", "both": "the mean of first and sampled answers"}


def choices(source: Source) -> list[Choice]:
    """The selections that the run made on validation questions.

    ``candidates`` of the figures holds the value that decided; ``scores``, where a stage left it, the greedy and sampled share as well.
    """
    found = []
    for stage, entry in source.stages.items():
        figures = entry.get("figures") or {}
        values, scores = figures.get("candidates"), figures.get("scores") or {}
        if not isinstance(values, Mapping):
            continue
        metric = str(figures.get("metric", "greedy"))
        candidates = []
        for name, value in values.items():
            score = {**({metric: value} if metric != "both" else {}), **(scores.get(name) or {})}
            greedy, samples = percent(score.get("greedy")), percent(score.get("samples"))
            candidates.append(Candidate(stage_words(str(name)), greedy, samples, percent(value), name == figures.get("chosen")))
        questions = figures.get("questions")
        found.append(
            Choice(stage_words(stage), questions if isinstance(questions, int) else None, METRIC_WORDS.get(metric, metric), candidates)
        )
    return found


def _counts(known: Mapping[str, tuple[str, str | None]], figures: Mapping[str, Any]) -> list[Count]:
    counts = []
    for key, (label, whole) in known.items():
        if not _is_number(figures.get(key)):
            continue
        share = figures[key] / figures[whole] if whole and _is_number(figures.get(whole)) and figures[whole] else None
        value = percent(figures[key]) if key.endswith("_share") else number(figures[key])
        counts.append(Count(label, value, share, whole is not None))
    for key, value in figures.items():
        if key not in known and _is_number(value):
            shown = percent(value) if key.endswith("_share") else number(value)
            counts.append(Count(key.replace("_", " ").capitalize(), shown, None, False))
    return counts


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
