"""What became of a log: counts that add up, what was refused and why, thumbs against verdicts, and where people contradict each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prefkit.data.agreement import Agreement
from prefkit.data.ingest_store import Store

KIND, VERSION = "prefkit-ingested", 1
MOST_LINES = 100_000
"""Lines of one sort that report.json lists; the counts are of all."""
MOST_CASES = 100
SHOWN_LINES, SHOWN_CASES = 10, 10

_VOTES = """SELECT COUNT(CASE WHEN l.thumb AND a.score = 1 THEN 1 END) AS up_pass,
                   COUNT(CASE WHEN l.thumb AND a.score < 1 THEN 1 END) AS up_fail,
                   COUNT(CASE WHEN NOT l.thumb AND a.score = 1 THEN 1 END) AS down_pass,
                   COUNT(CASE WHEN NOT l.thumb AND a.score < 1 THEN 1 END) AS down_fail
            FROM lines l JOIN answers a ON a.id = l.answer JOIN groups g ON g.id = l.grp WHERE l.thumb IS NOT NULL AND """
_SPLIT_VOTES = """SELECT g.question, a.content AS answer, a.status, SUM(l.thumb) AS up, SUM(NOT l.thumb) AS down, MIN(l.number) AS line
                  FROM lines l JOIN answers a ON a.id = l.answer JOIN groups g ON g.id = l.grp WHERE l.thumb IS NOT NULL
                  GROUP BY a.id HAVING up > 0 AND down > 0"""
_CASES = "SELECT id, question FROM groups WHERE problem IS NOT NULL"


def report(store: Store, lines: int, made: Mapping[str, int]) -> dict[str, Any]:
    """The figures of an ingest, from its scratch database."""
    handled = store.count("SELECT COUNT(*) FROM lines")
    broken, refused = (store.count("SELECT COUNT(*) FROM faults WHERE sort = ?", sort) for sort in ("broken", "refused"))
    counts = {"lines": lines, "empty": lines - handled - broken, "broken": broken, "handled": handled}
    return {
        "counts": {**counts, "refused": refused, "used": handled - refused},
        "made": dict(made),
        "broken": _faults(store, "broken"),
        "refused": _faults(store, "refused"),
        "agreement": {"task": _agreement(store, "g.known IS NOT NULL"), "corrections": _agreement(store, "g.known IS NULL")},
        "contradictions": {"thumbs": _thumbs(store), "corrections": _corrections(store)},
    }


def _faults(store: Store, sort: str) -> dict[str, Any]:
    reasons = store.all("SELECT reason, COUNT(*) AS n FROM faults WHERE sort = ? GROUP BY reason ORDER BY n DESC, reason", sort)
    lines = store.all("SELECT line, reason, detail FROM faults WHERE sort = ? ORDER BY line LIMIT ?", sort, MOST_LINES)
    whole = sum(row["n"] for row in reasons)
    return {
        "reasons": {row["reason"]: row["n"] for row in reasons},
        "lines": [{key: row[key] for key in ("line", "reason", "detail") if row[key]} for row in lines],
        "not_listed": whole - len(lines),
    }


def _agreement(store: Store, which: str) -> dict[str, Any]:
    row = store.one(_VOTES + which)
    assert row is not None
    return Agreement(**dict(row)).to_dict()


def _thumbs(store: Store) -> dict[str, Any]:
    cases = store.all(f"{_SPLIT_VOTES} ORDER BY line LIMIT ?", MOST_CASES)
    return {"count": store.count(f"SELECT COUNT(*) FROM ({_SPLIT_VOTES})"), "cases": [dict(case) for case in cases]}


def _corrections(store: Store) -> dict[str, Any]:
    cases = []
    for group in store.all(f"{_CASES} ORDER BY id LIMIT ?", MOST_CASES):
        answers = """SELECT content AS correction, (SELECT MIN(number) FROM lines l WHERE l.grp = a.grp AND l.correction = a.id) AS line
                     FROM answers a WHERE grp = ? AND correction AND fault = '' ORDER BY line LIMIT ?"""
        cases.append({"question": group["question"], "corrections": [dict(row) for row in store.all(answers, group["id"], MOST_CASES)]})
    return {"count": store.count(f"SELECT COUNT(*) FROM ({_CASES})"), "cases": cases}


# report.md


def markdown(report: Mapping[str, Any]) -> str:
    """The report for a person."""
    counts, made = report["counts"], report["made"]
    parts = [
        f"# What became of {_plain(report['log']['name'])}",
        f"{counts['lines']:,} lines: {counts['handled']:,} handled, {counts['broken']:,} broken, {counts['empty']:,} empty. "
        f"Of the {counts['handled']:,} handled, {counts['used']:,} gave training rows and {counts['refused']:,} did not.",
        _table(("made", "rows"), [(name, f"{count:,}") for name, count in made.items()]),
        "## Redacted",
        _table(("kind", "times"), [(kind, f"{count:,}") for kind, count in report["redacted"].items()]) or "Nothing was found.",
        *_fault_part("Broken lines", "Nothing of these was used.", report["broken"]),
        *_fault_part(
            "Lines that make no training row", "They were read, redacted and, where there is a reference, judged.", report["refused"]
        ),
        "## Thumbs and verdicts",
        *_agreement_part("Questions of the task, judged by its references", report["agreement"]["task"]),
        *_agreement_part("New questions, judged by users' corrections (often the same user's)", report["agreement"]["corrections"]),
        "## Where people contradict each other",
        *_contradiction_part(report["contradictions"]),
    ]
    if report["unused_fields"]:
        parts += ["## Fields that nothing was read from", ", ".join(_plain(name) for name in report["unused_fields"])]
    return "\n\n".join(part for part in parts if part) + "\n"


def _fault_part(title: str, about: str, faults: Mapping[str, Any]) -> list[str]:
    if not faults["reasons"]:
        return [f"## {title}", "None."]
    rows = []
    for reason, count in faults["reasons"].items():
        numbers = [str(line["line"]) for line in faults["lines"] if line["reason"] == reason]
        more = " …" if count > SHOWN_LINES else ""
        rows.append((_plain(reason), f"{count:,}", ", ".join(numbers[:SHOWN_LINES]) + more))
    cut = f"report.json lists every line but {faults['not_listed']:,}." if faults["not_listed"] else "report.json lists every line."
    return [f"## {title}", f"{about} {cut}", _table(("reason", "lines", "which"), rows)]


def agreement_words(found: Mapping[str, Any]) -> str:
    """One sentence: the share, kappa, and their intervals."""
    if not found["n"]:
        return "No answer has both a thumb and a verdict."
    share, kappa = found["share"], found["kappa"]
    interval = f"95 % interval {share['low']:.1%} to {share['high']:.1%}"
    said = f"Thumb and verdict agree on {share['mean']:.1%} of {found['n']:,} answers ({interval})"
    if kappa is None:
        return f"{said}; Cohen's kappa says nothing where one side always says the same."
    return f"{said}; Cohen's kappa is {kappa['value']:.2f} ({kappa['low']:.2f} to {kappa['high']:.2f})."


def _agreement_part(title: str, found: Mapping[str, Any]) -> list[str]:
    if not found["n"]:
        return [f"**{title}.** {agreement_words(found)}"]
    rows = [("thumb up", str(found["up_pass"]), str(found["up_fail"])), ("thumb down", str(found["down_pass"]), str(found["down_fail"]))]
    return [f"**{title}.** {agreement_words(found)}", _table(("", "right", "wrong"), rows)]


def _contradiction_part(found: Mapping[str, Any]) -> list[str]:
    thumbs, corrections = found["thumbs"], found["corrections"]
    parts = [f"{thumbs['count']:,} answers have thumbs up and thumbs down."]
    rows = [(case["question"], case["answer"], str(case["up"]), str(case["down"])) for case in thumbs["cases"][:SHOWN_CASES]]
    parts.append(_table(("question", "answer", "up", "down"), rows))
    parts.append(
        f"{corrections['count']:,} questions have corrections that return different rows. None of them was used: decide which is right, "
        "and put it into the task's questions."
    )
    rows = [
        (case["question"], " / ".join(f"{one['correction']} (line {one['line']})" for one in case["corrections"][:3]))
        for case in corrections["cases"][:SHOWN_CASES]
    ]
    return [*parts, _table(("question", "corrections"), rows)]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [columns, ["---"] * len(columns), *([_plain(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _plain(text: str) -> str:
    """Text of a log inside a line of Markdown: nothing in it is a mark, a new line or HTML."""
    flat = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    for mark in "\\`*_[]<>|#":
        flat = flat.replace(mark, f"\\{mark}")
    return flat[:500]
