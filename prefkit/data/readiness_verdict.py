"""The verdict of a readiness check: the first thing that stands in the way, with its numbers and what to do.

| verdict                 | rule, in this order                                                                                        |
|-------------------------|------------------------------------------------------------------------------------------------------------|
| fix the data            | a gold fails its own verifier; a verdict differs the second time; more than a tenth of planted wrong       |
|                         | answers, or of the questions for one trivial answer, pass                                                   |
| too few questions       | fewer than 50 held-out questions                                                                            |
| choose a stronger model | more than a twentieth of the prompts do not fit its window; or nothing was right, and it cannot tell which  |
|                         | gold belongs to which question, or (where likelihoods are not to be had) answers all questions alike; or    |
|                         | few groups have signal, and it finds a name at the near end of the longest schema but not at the far end    |
| solved already          | few groups have signal because most questions are always right                                              |
| warm start first        | few groups have signal because most questions are never right                                               |
| ready                   | at least 30 % of groups are expected to have right and wrong answers                                        |

No right answer at all is no sign of a weak model: a base model that writes no SQL may learn the form in minutes from references. What
cannot be taught in minutes is that a question bears on its query, which the likelihoods of golds show before any training.
A figure that was not measured decides nothing.
"""

from __future__ import annotations

from typing import Any

from prefkit.statistics import smallest_gain

Row = dict[str, Any]

READY_SHARE = 0.3
"""Share of groups with signal from which online learning has something to go by in most steps."""
FEWEST_QUESTIONS = 50
"""Fewer held-out questions than this cannot show a gain of 20 points."""
MOST_PASSED = 0.1
"""Share of answers made without understanding that may be right by chance."""
MOST_CUT = 0.05
"""Share of prompts that may be too long for the model."""
ALIKE = 0.9
"""Share of equal answers from which a model is taken not to read the questions; with at least FEWEST_ASKED questions."""
FEWEST_ASKED = 5

Verdict = tuple[str, str]


def verdict_of(figures: Row) -> Verdict:
    """(verdict, advice) of the figures of `readiness.readiness`, with whatever else was measured (see commands/ready_measure.py)."""
    for rule in (_data, _questions, _window, _understanding, _far_end, _solved, _warm_start):
        found = rule(figures)
        if found:
            return found
    return "ready", (
        f"{_share(figures['signal_share'])} of groups of {figures['group']} answers are expected to have right and wrong ones: its own "
        "answers and online steps have signal from the start."
    )


def _data(figures: Row) -> Verdict | None:
    problem = _gold_problem(figures) or _judge_problem(figures)
    return ("fix the data", problem) if problem else None


def _gold_problem(figures: Row) -> str | None:
    if not figures["gold_faults"]:
        return None
    return (
        f"the golds of {figures['gold_faults']} of {figures['golds_checked']} questions do not pass their own verifier "
        f"(first: {figures['first_gold_faults'][0]}). A wrong gold teaches and measures the wrong thing: mend these questions first."
    )


def _judge_problem(figures: Row) -> str | None:
    if figures.get("repeated_differ"):
        return (
            f"{figures['repeated_differ']} of {figures['repeated']} verdicts were not the same the second time "
            f"(first: {figures['first_differences'][0]}). Golds whose result changes from run to run cannot be learned: give them an ORDER "
            "BY that leaves no ties, and take the clock and random() out."
        )
    if figures.get("planted_passed", 0) > MOST_PASSED * figures.get("planted", 0):
        return (
            f"{figures['planted_passed']} of {figures['planted']} planted wrong answers passed. Questions of one database have the same "
            "result too often: ask for names and figures that differ, or give a second data instance."
        )
    for name, (right, asked) in figures.get("trivial", {}).items():
        if right > MOST_PASSED * asked:
            return (
                f"{name} is right for {right} of {asked} held-out questions. A model gets these without reading them: replace questions "
                "whose result is 0, empty or always the same."
            )
    return None


def _questions(figures: Row) -> Verdict | None:
    held_out = figures["questions"].get("test", 0) + figures["questions"].get("unseen", 0)
    if held_out >= FEWEST_QUESTIONS:
        return None
    gain = smallest_gain(held_out)
    shown = "cannot show any gain reliably" if gain is None else f"cannot show a gain of less than about {100 * gain:.0f} points"
    return (
        "too few questions",
        f"{held_out} held-out questions {shown}; {FEWEST_QUESTIONS} or more are wanted. Write more with their queries.",
    )


def _window(figures: Row) -> Verdict | None:
    cut, prompts = figures.get("too_long", 0), figures.get("prompts_measured", 0)
    if cut <= MOST_CUT * prompts:
        return None
    return "choose a stronger model", (
        f"{cut} of {prompts} prompts with the {figures['max_new_tokens']} tokens of an answer are longer than the {figures['context']} "
        f"tokens that it attends to; the longest takes {figures['longest_prompt'] + figures['max_new_tokens']}. Take a model with a longer "
        "window, or make the prompts shorter with --set task.schema_values=false."
    )


def _understanding(figures: Row) -> Verdict | None:
    if not figures["answers"] or figures["right"]:
        return None
    none = f"none of {figures['answers']} answers was right"
    matched = figures.get("gold_match")
    if matched and matched["n"]:
        if matched["low"] > 0.5:
            return None
        return "choose a stronger model", (
            f"{none}, and by its likelihoods it tells which of two queries belongs to which of two questions in {_share(matched['mean'])} "
            f"of {matched['n']} pairs, where guessing gives 50 %. References can teach a form, not what words mean: take a larger model, "
            "or one that was trained on code."
        )
    if figures["same_answer_share"] >= ALIKE and figures["prompts"] >= FEWEST_ASKED:
        return "choose a stronger model", (
            f"{none}, and {_share(figures['same_answer_share'])} of the answers to {figures['prompts']} questions are the same text: "
            "it does not read the question. Check how it is asked; if that is right, take another model."
        )
    return None


def _far_end(figures: Row) -> Verdict | None:
    near, far = figures.get("needle_near"), figures.get("needle_far")
    if not near or not far or figures["signal_share"] >= READY_SHARE or near["low"] <= 0.5 or far["low"] > 0.5:
        return None
    return "choose a stronger model", (
        f"it finds the column of a table in {_share(near['mean'])} of {near['n']} tries where both stand last in the longest schema, and "
        f"in {_share(far['mean'])} of {far['n']} where they stand first (guessing gives 50 %): it does not see the whole of your schema. "
        "Take a model made for long texts, or leave unused tables out of the database."
    )


def _solved(figures: Row) -> Verdict | None:
    if figures["signal_share"] >= READY_SHARE or figures["all_right"] <= figures["all_wrong"]:
        return None
    return "solved already", (
        f"{_share(figures['pass_at_1'])} of its answers are right, and {_share(figures['all_right'])} of the questions are always answered "
        "right: there is little left to learn. Ask harder questions, or use this model as it is."
    )


def _warm_start(figures: Row) -> Verdict | None:
    if figures["signal_share"] >= READY_SHARE:
        return None
    if not figures["answers"]:
        return "warm start first", "no question was asked, so nothing is known of what it can do. Begin with references (the recipe does)."
    said = (
        f"{_share(figures['signal_share'])} of groups of {figures['group']} answers are expected to have right and wrong ones, so online "
        "steps would see no signal in most."
    )
    kinds = figures["kinds"]
    formless = kinds["no query"] + kinds["does not parse"] + kinds["not finished"]
    if 2 * formless > figures["answers"]:
        said += f" {_share(formless / figures['answers'])} of the answers fail by their form, which references teach first."
    matched = figures.get("gold_match")
    if matched and matched["n"]:
        said += f" It can tell which query belongs to which question ({_share(matched['mean'])} of pairs), so there is ground to teach on."
    elif not figures["right"]:
        said += " Whether references can teach it was not measured."
    return "warm start first", f"{said} Begin with references (the recipe does)."


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"
