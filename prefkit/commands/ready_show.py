"""The figures of `prefkit ready` in words: one model line by line, or several in a table with the one to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefkit.commands.terminal import console, fields, shown, table

Row = dict[str, Any]
Field = tuple[str, str]


def show(result: Row) -> None:
    """The figures of one model, the verdict first."""
    fields(
        [
            ("verdict", f"{result['verdict']}: {shown(result['advice'])}"),
            *_model(result),
            *_task(result),
            *_answers(result),
            *_reach(result),
            *_signal(result),
            *_gain_fields(result),
        ]
    )
    for fault in (*result["first_gold_faults"], *result["first_differences"]):
        print(f"  {shown(fault)}")


def compare(results: Sequence[Row]) -> None:
    """A column for each model, the one to begin with, and the advice for each below."""
    from prefkit.data.model_choice import choose

    lines = [_column(result) for result in results]
    rows = [[name, *(line[name] for line in lines)] for name in lines[0]]
    console().print(table(["", *(shown(result["name"]) for result in results)], rows, right=range(1, len(lines) + 1)))
    print()
    chosen, why = choose(results)
    fields([("begin with", f"{shown(chosen)}: {shown(why)}" if chosen else shown(why))])
    print()
    fields([(shown(result["name"]), f"{result['verdict']}: {shown(result['advice'])}") for result in results])
    print()
    fields([*_task(results[0]), *_gain_fields(results[0])])


def gains(questions: dict[str, int], limits: dict[str, int | None]) -> Row:
    """For each held-out split: how many questions it has and the recipe takes, and the smallest gain that each shows, or None."""
    from prefkit.statistics import smallest_gain

    found = {}
    for split, limit in limits.items():
        count = questions.get(split, 0)
        if count:
            taken = count if limit is None else min(limit, count)
            found[split] = {"questions": count, "shows": smallest_gain(count), "taken": taken, "taken_shows": smallest_gain(taken)}
    return found


def gain_words(gains: Row) -> list[str]:
    """The same in words, a sentence for each split."""

    def gain(least: float | None) -> str:
        return "no gain" if least is None else f"a gain of {100 * least:.1f} points or more"

    said = []
    for split, one in gains.items():
        part = f"; the {one['taken']} that this recipe takes, {gain(one['taken_shows'])}" if one["taken"] < one["questions"] else ""
        said.append(f"{one['questions']} {split} questions show {gain(one['shows'])}{part} (four times out of five)")
    return said or ["there are no held-out questions, so no gain can be shown"]


def _column(result: Row) -> dict[str, str]:
    """What a model's column of the table says, by line."""
    answers = result["answers"]
    formless = sum(result["kinds"][kind] for kind in ("no query", "does not parse", "not finished"))
    golds = result.get("gold_match") or {"n": 0}
    speed, memory, window = (result.get(name) for name in ("tokens_per_s", "memory_gb", "context"))

    def of_answers(text: str) -> str:
        return text if answers else "–"

    return {
        "verdict": result["verdict"],
        "questions × answers": f"{result['prompts']} × {result['k']}",
        "pass@1": of_answers(_percent(result["pass_at_1"])),
        "pass@K": of_answers(_percent(result["pass_at_k"])),
        "mixed questions": of_answers(_percent(result["mixed_share"])),
        "failures of form": of_answers(_percent(formless / max(answers, 1))),
        "golds told apart": f"{_percent(golds['mean'])}" if golds["n"] else "–",
        "tokens/s": f"{speed:.0f}" if speed else "–",
        "memory, GB": f"{result['processes']} × {memory:.1f}" if memory else "–",
        "window, tokens": f"{window}" if window else "–",
    }


def _model(result: Row) -> list[Field]:
    if result["kind"] == "answers":
        left = f"; {result['left_out']} to questions with a faulty gold left out" if result["left_out"] else ""
        return [("answers", f"from {shown(result['name'])}: {result['answers']} to {result['prompts']} questions{left}")]
    known = [f"{result['parameters'] / 1e6:.0f} million parameters", f"{result['weights_gb']:.2f} GB of weights"]
    if result["tokens_per_s"]:
        known.append(f"{result['tokens_per_s']:.0f} tokens/s")
    known.append(f"{result['memory_gb']:.1f} GB of memory in each of {result['processes']} processes")
    own = f" (adapter of {shown(result['model'])})" if result["kind"] == "adapter" else ""
    return [("model", f"{shown(result['name'])}{own}: {', '.join(known)}")]


def _task(result: Row) -> list[Field]:
    faults = result["gold_faults"]
    golds = f"{faults} have a gold that does not pass its own verifier" if faults else "all golds pass their own verifier"
    differ = result["repeated_differ"]
    trivial = ", ".join(f"{name} {right}" for name, (right, _) in result["trivial"].items())
    asked = next((asked for _, asked in result["trivial"].values()), 0)
    return [
        ("questions", ", ".join(f"{count} {split}" for split, count in result["questions"].items())),
        ("golds", f"{result['golds_checked']} questions checked on every data instance; {golds}"),
        ("repeated", f"{result['repeated']} verdicts a second time: {f'{differ} differ' if differ else 'all the same'}"),
        (
            "planted",
            f"{result['planted_passed']} of {result['planted']} wrong answers passed (another question's gold may, by chance)",
        ),
        ("trivial", f"right on {asked} held-out questions: {trivial}"),
    ]


def _answers(result: Row) -> list[Field]:
    if not result["answers"]:
        return [("asked", "nothing: no question fits its window" if result.get("too_long") else "nothing: there was no question to ask")]
    split = f" {result['split']}" if result["split"] else ""
    least = "at least " if result["answers"] > result["k"] * result["prompts"] else ""
    lines = [f"{least}{result['k']} answers to each of {result['prompts']}{split} questions"]
    lines += [f"pass@{k}  {_share(result['pass_at'][k])}" for k in result["pass_at"]]
    lines.append(
        f"questions always wrong {_percent(result['all_wrong'])}, mixed {_percent(result['mixed_share'])}, always right "
        f"{_percent(result['all_right'])}"
    )
    kinds = ", ".join(f"{kind} {_percent(count / result['answers'])}" for kind, count in result["kinds"].items() if count)
    lines.append(f"of the answers: {kinds}")
    if result["truncated"]:
        lines.append(f"{result['truncated']} of {result['answers']} answers did not end within their tokens")
    return [("asked" if not index else "", line) for index, line in enumerate(lines)]


def _reach(result: Row) -> list[Field]:
    """Prompts against the window, and what the likelihoods show."""
    if result["kind"] == "answers":
        return []
    need, window = result["longest_prompt"] + result["max_new_tokens"], result["context"]
    cut = f"{result['too_long']} of {result['prompts_measured']} do not fit" if result["too_long"] else "all fit"
    of = f"of {window} that it attends to; {cut}" if window else "; it names no limit"
    lines = [("prompts", f"the longest has {result['longest_prompt']} tokens, {need} with its answer, {of}".replace(", ;", ";"))]
    far, near = result["needle_far"], result["needle_near"]
    if far["n"]:
        found = f"found in {_share(far)} of {far['n']} tries where the table stands first in the longest schema"
        lines.append(("far end", f"a table's column is {found}; where it stands last, in {_share(near)}"))
    golds = result["gold_match"]
    if golds["n"]:
        lines.append(("likelihood", f"of two golds, each to its own question: {_share(golds)} of {golds['n']} pairs (guessing: 50 %)"))
        lines.append(("", f"a character of a gold costs {result['gold_nats']:.2f} nats"))
    return lines


def _signal(result: Row) -> list[Field]:
    after = result["after"]
    before = _share(result["signal"]) if result["answers"] else "not known: nothing was asked"
    group = f"of groups of {result['group']} answers expected to have right and wrong ones"
    later = after["rests_on"] if after["signal"] is None else f"{_later(after['signal'])} ({shown(after['rests_on'])})"
    return [("signal", f"{group}, as it is: {before}"), ("", f"after a warm start: {later}")]


def _later(signal: Row) -> str:
    return _share(signal) if signal["n"] else _percent(signal["mean"])


def _gain_fields(result: Row) -> list[Field]:
    return [("" if index else "shows", text) for index, text in enumerate(gain_words(result["gains"]))]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _share(figure: Row) -> str:
    """A share with its 95 % interval."""
    from prefkit.commands.scores import score_words

    return score_words(figure)
