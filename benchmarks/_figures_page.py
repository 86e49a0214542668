"""The README's figures as Markdown: first what a reader of one minute needs, then the rest folded away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prefkit.errors import DataError
from prefkit.evaluate.words import effect, interval_words, percent, points, policy_words, step_words
from prefkit.files import write_text
from prefkit.report.source import stage_words
from prefkit.report.text import duration, number

BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"
SPLITS = {"test": "Test: databases that training knows", "unseen": "Unseen: databases that training never saw"}
LEVELS = {
    "1": "1 filter",
    "2": "2 aggregate",
    "3": "3 group, having, order, top",
    "4": "4 joins",
    "5": "5 subqueries, dates, NULL",
}
Figures = Mapping[str, Any]


def fill(file: Path, text: str) -> None:
    """Put `text` between the marks of `file`, whole or not at all. DataError where the marks are not there exactly once."""
    try:
        old = file.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from error
    if old.count(BEGIN) != 1 or old.count(END) != 1 or old.index(BEGIN) > old.index(END):
        raise DataError(f"{file} must hold {BEGIN} and then {END}, each once; the figures go between them.")
    before, after = old.partition(BEGIN)[0], old.partition(END)[2]
    write_text(file, f"{before}{BEGIN}\n{text.strip()}\n{END}{after}")


def page(found: Figures) -> str:
    """All tables, from the values of `figures.figures`."""
    parts = [
        headline(found),
        aims(found["aims"]),
        _folded("Every policy, over all seeds and by seed", "\n\n".join(_scores(found, split) for split in found["splits"])),
        _folded("Every step: what it added", "\n\n".join(_ledger(found, split) for split in found["splits"])),
        _folded("By level, before and after", "\n\n".join(_levels(found, split) for split in found["splits"])),
        _folded("What it cost", _costs(found)),
    ]
    return "\n\n".join(parts)


def headline(found: Figures) -> str:
    """Base and final model side by side, greedy and sampled, on every split."""
    first, last = found["policies"][0], found["policies"][-1]
    totals = {(entry["split"], entry["measure"]): entry["pooled"] for entry in found["ledger"] if entry["step"] == "total"}
    rows = []
    for split, part in found["splits"].items():
        for measure, words in (("greedy", "first answer (greedy)"), ("samples", f"samples at T = {found['temperature']:g}")):
            before, after = (part["scores"][policy][measure]["pooled"] for policy in (first, last))
            rows.append([SPLITS.get(split, split), words, _share(before), _share(after), _gain(totals[split, measure])])
    table = _table(["Questions", "Measure", policy_words(first), policy_words(last), "Gain, points"], rows)
    return f"{_what_it_is(found)}\n\n{table}"


def _what_it_is(found: Figures) -> str:
    runs = found["runs"]
    labels = ", ".join(run["label"] for run in runs)
    many = f"{len(runs)} training runs ({labels})"
    if len(runs) == 1:
        many = f"One training run ({labels}): how far another seed lies, it cannot say"
    sizes = []
    for split, part in found["splits"].items():
        sizes.append(f"{part['questions']} of {part['of']} {split}" if part["questions"] < part["of"] else f"all {part['of']} {split}")
    minutes = max(run["minutes"] for run in runs)
    machine = next((run["machine"] for run in runs if run["machine"]), None)
    where = f" on {machine}" if machine else ""
    return (
        f"Share of right answers, by execution on both data instances, in per cent with 95 % intervals. {many}; {' and '.join(sizes)} "
        f"questions; at most {number(round(minutes, 1))} minutes a run{where}. Samples: {found['k']} for each question."
    )


def aims(rows: Sequence[Figures]) -> str:
    """The aims beside what was reached."""
    table = [[row["aim"], f"{row['sign']} {_value(row['bound'], row['unit'])}", _reached(row), _held(row)] for row in rows]
    return _table(["Aim", "Set", "Reached", "Held"], table)


def _reached(row: Figures) -> str:
    return "not measured" if row["reached"] is None else _value(row["reached"], row["unit"])


def _held(row: Figures) -> str:
    if row["held"] is None:
        return "–"
    if row["held"]:
        return "yes"
    apart = abs(row["reached"] - row["bound"])
    if not apart:
        return "**no**, it is just the bound"
    by = f"{points(apart, signed=False)} points" if row["unit"] in ("share", "points") else _value(apart, row["unit"])
    return f"**no**, missed by {by}"


def _value(value: float, unit: str) -> str:
    if unit == "share":
        return percent(value)
    if unit == "points":
        return f"{points(value)} points"
    return f"{number(round(value, 2))} {unit}"


def _scores(found: Figures, split: str) -> str:
    part, labels = found["splits"][split], [run["label"] for run in found["runs"]]
    rows = []
    for policy in found["policies"]:
        scores = part["scores"][policy]
        if len(labels) > 1:
            rows.append([f"**{policy_words(policy)}**", "all", *(_share(scores[measure]["pooled"]) for measure in ("greedy", "samples"))])
        for label in labels:
            name = "" if len(labels) > 1 else policy_words(policy)
            rows.append([name, label, *(_share(scores[measure]["by_run"][label]) for measure in ("greedy", "samples"))])
    return f"{_title(split, part)}\n\n{_table(['Policy', 'Run', 'First answer', 'Samples'], rows)}"


def _ledger(found: Figures, split: str) -> str:
    labels = [run["label"] for run in found["runs"]]
    gains = {(entry["step"], entry["measure"]): entry for entry in found["ledger"] if entry["split"] == split}
    rows = []
    for step in dict.fromkeys(step for step, _ in gains):
        greedy, samples = gains[step, "greedy"], gains[step, "samples"]
        if len(labels) > 1:
            rows.append([f"**{step_words(step)}**", "all", _gain(greedy["pooled"]), _gain(samples["pooled"])])
        for label in labels:
            name = "" if len(labels) > 1 else step_words(step)
            rows.append([name, label, *(_gain(entry["by_run"][label]) if label in entry["by_run"] else "–" for entry in (greedy, samples))])
    return f"{_title(split, found['splits'][split])}\n\n{_table(['Step', 'Run', 'First answer, points', 'Samples, points'], rows)}"


def _levels(found: Figures, split: str) -> str:
    part = found["splits"][split]
    rows = []
    for level, scores in part["by_level"].items():
        ends = [_share(scores[measure][end]) for measure in ("greedy", "samples") for end in ("base", "final")]
        rows.append([LEVELS.get(level, level), str(scores["questions"]), *ends])
    columns = ["Level", "Questions", "First answer: base", "final", "Samples: base", "final"]
    return f"{_title(split, part)}\n\n{_table(columns, rows)}"


def _costs(found: Figures) -> str:
    runs = [
        [run["label"], f"{run['minutes']:.1f}", "not measured" if run["peak_memory_gb"] is None else f"{run['peak_memory_gb']:.2f}"]
        for run in found["runs"]
    ]
    stages = [[stage_words(stage), duration(seconds)] for stage, seconds in found["stages"].items()]
    mean = "Time of each stage" if len(runs) == 1 else f"Time of each stage, mean of {len(runs)} runs"
    return f"{_table(['Run', 'Minutes', 'Peak memory, GB'], runs)}\n\n{_table([mean, ''], stages)}"


def _title(split: str, part: Figures) -> str:
    asked = f"{part['questions']} of {part['of']}" if part["questions"] < part["of"] else f"all {part['of']}"
    return f"**{SPLITS.get(split, split)}** ({asked} questions)"


def _share(figure: Figures) -> str:
    return "–" if figure["mean"] is None else f"{percent(figure['mean'])} ({interval_words(figure, 'percent')})"


def _gain(figure: Figures) -> str:
    if figure["mean"] is None:
        return "–"
    return "no change" if effect(figure) == "same" else f"{points(figure['mean'])} ({interval_words(figure)})"


def _folded(title: str, text: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
