"""What a careful reader asks of the figures, answered: what was compared, how sure it is, and what it does not show."""

from __future__ import annotations

from prefkit.evaluate.words import percent, points, split_words
from prefkit.report.funnel import choices
from prefkit.report.source import Source
from prefkit.statistics import smallest_gain

FEW = 30
FEW_DATABASES = 20
Note = tuple[str, str]

EXECUTED = "Every answer was checked by execution, and is right where the verifier passed it; nobody judged it by its looks."
INTERVALS = (
    "Intervals and gains",
    "The question is the unit: several samples of one question do not count as several questions. Scores carry Wilson's 95 % interval, for "
    "samples at the effective number of questions. Gains are paired: both models answered the same questions, and only the questions that "
    "changed decide; their interval is the adjusted one of Bonett and Price. p is the mid-p McNemar test for first answers and a sign-flip "
    "test for samples.",
)
CLAIMS = (
    "What may be called a gain",
    "Only what has its whole interval above 0. Where the interval contains 0, this report says that nothing was shown; that is not proof "
    "that there is no effect.",
)
ONE_RUN = (
    "One training run",
    "The intervals cover the draw of questions. They do not cover the luck of training: another seed gives another model, so repeat the "
    "run with other seeds before relying on a difference of a few points.",
)


def notes(source: Source) -> list[Note]:
    """(heading, text) of each note."""
    found = [_right(source), _two_measures(source), INTERVALS, CLAIMS, _many_intervals(source), _selection(source)]
    found += [_size(source, split) for split in source.splits]
    return [note for note in (*found, _few_databases(source), ONE_RUN, _unscored(source)) if note is not None]


def _right(source: Source) -> Note:
    """How the answers were judged, by the trust of their verdicts."""
    heading, trust = "What counts as right", source.trust
    judged, model, inside = sum(trust.values()), trust.get("model", 0), trust.get("in_process", 0)
    if model == judged > 0:
        return heading, "No answer was executed: a model (the judge) rated each of them. These figures are that model's opinion."
    said = EXECUTED
    if model:
        said = (
            f"{judged - model} of {judged} answers were checked by execution. The other {model} were rated by a model (the judge): an "
            "opinion. The recipe allows both in one figure (judge.mix)."
        )
    if inside:
        said += f" {inside} were checked by tests in the answer's own process, which a hostile answer can reach (trust: in_process)."
    return heading, said


def _two_measures(source: Source) -> Note:
    k, temperature = source.evaluation["k"], source.evaluation["temperature"]
    return (
        "First answer and samples",
        f"The first answer (greedy) takes the most likely token each time. The sampled figure is the share of right answers among {k} "
        f"drawn at temperature {temperature:g}, averaged over questions. A model can become steadier in its samples without a better "
        "first answer, so the two always stand side by side.",
    )


def _many_intervals(source: Source) -> Note | None:
    n = len(source.ledger["entries"])
    if n == 0:
        return None
    return (
        "Many intervals",
        f"The ledger holds {n} gains. Had training changed nothing at all, about one 95 % interval in twenty would still exclude 0, so "
        "read a single narrow gain among many with care. The verdict at the top rests on the totals alone.",
    )


def _selection(source: Source) -> Note:
    heading = "Choice of the model"
    if "validation" in source.splits:
        return (
            heading,
            "The figures on the validation questions are too favourable where the same questions chose the checkpoint; they cannot "
            "stand in for a test.",
        )
    if not choices(source):
        return heading, "The run records no choice among candidates on validation questions."
    return (
        heading,
        "Checkpoints were chosen by their score on validation questions, so validation scores are too favourable and are no evidence here. "
        f"The evaluated questions ({', '.join(source.splits)}) are other questions and took no part in the choice.",
    )


def _size(source: Source, split: str) -> Note:
    size = source.evaluation["splits"][split]
    n, of = size["questions"], size["of"]
    asked = f"All {n} {split_words(split)} were asked." if n == of else f"{n} of the {of} {split_words(split)} were asked."
    least = smallest_gain(n)
    reach = "So few questions cannot show any gain reliably."
    if least is not None:
        reach = (
            f"With {n} questions a true gain in first answers of {points(least, signed=False)} points is shown four times in five (if 5 % "
            "of the questions are lost on the way); smaller ones often go unseen."
        )
    few = " That is a small sample: its figures are a first impression." if n < FEW else ""
    return f"Questions: {split}", f"{asked} {reach}{few}"


def _few_databases(source: Source) -> Note | None:
    names: dict[str, set[str]] = {split: set() for split in source.splits}
    for answer in source.answers:
        names[answer["split"]].add(str(answer["database"]))
    counts = {split: len(found) for split, found in names.items() if found}
    if not counts or min(counts.values()) > FEW_DATABASES:
        return None
    listed = ", ".join(f"{split}: {count}" for split, count in counts.items())
    return (
        "Databases",
        f"The questions come from few databases ({listed}). The intervals hold for more questions on these databases; how a further "
        "database would fare, they cannot say.",
    )


def _unscored(source: Source) -> Note | None:
    counts = {
        f"{policy} on {split}": scores.get("unscored", 0)
        for split, policies in source.evaluation["scores"].items()
        for policy, scores in policies.items()
    }
    count = sum(counts.values())
    if not count:
        return None
    listed = ", ".join(f"{number} of {where}" for where, number in counts.items() if number)
    return (
        "Answers without a score",
        f"The verifier could not judge {count} of {len(source.answers)} answers ({percent(count / len(source.answers))}): {listed}. They "
        "count neither as right nor as wrong.",
    )
