"""`prefkit ready`: has this task a verifier, and this model anything to learn from?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefkit.commands.arguments import Parser, recipe_options
from prefkit.errors import PrefkitError

ABOUT = (
    "Before any training: do the golds pass their own verifier, what can the model do already, and how small a gain can the questions show?"
)
EXAMPLE = "prefkit ready sql-gen --model embedded --model ./my-model"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """What the check found of one model. `limits`: questions that the recipe takes of each held-out split; None is all."""

    model: str
    figures: Row
    limits: dict[str, int | None]


def arguments(parser: Parser) -> None:
    parser.add_argument("recipe", metavar="NAME|FILE", help="a shipped recipe (`prefkit recipes`) or a YAML file")
    parser.add_argument(
        "--model",
        dest="models",
        action="append",
        default=[],
        metavar="M",
        help="embedded, a folder, or a Hugging Face name; several to compare them",
    )
    recipe_options(parser)


def run(options: Any) -> int:
    results: list[Result] = []
    failed = 0
    for model in list(dict.fromkeys(options.models)) or [None]:
        try:
            results.append(check(options, model))
        except PrefkitError as error:
            if len(options.models) < 2:
                raise
            # One model that cannot be had does not keep the others from being compared.
            failed += 1
            print(f"prefkit: {model}: {error}", file=sys.stderr)
    if len(results) == 1 and not failed:
        show(results[0])
    elif results:
        compare(results)
    return 2 if failed else 0


def check(options: Any, model: str | None) -> Result:
    """Run the readiness stage for one model, or take what an earlier call with these settings left."""
    from prefkit import pipeline, recipe
    from prefkit.commands import machine
    from prefkit.commands.recipe import begun, warn_through
    from prefkit.progress import Progress

    overrides = [*options.overrides, "track.wandb=off"]
    chosen = recipe.load(options.recipe, profile=options.profile, overrides=overrides, model=model)
    machine.require(chosen.profile, chosen.model.name)
    with Progress() as progress:
        warn_through(progress)
        folder = Path("runs") / f"ready-{chosen.run_name}"
        progress.say(f"{chosen.model.name}: {folder}")
        before = begun(folder)
        done = pipeline.run(chosen, folder, progress, only=("readiness",))
        if begun(folder) == before:
            progress.say("nothing to do: it was checked before, and nothing has changed")
    limits = {"test": chosen.limits.test, "unseen": chosen.limits.unseen}
    return Result(chosen.model.name, done.read_json("readiness.json"), limits)


def show(result: Result) -> None:
    """The figures of one model in words, the verdict first."""
    from prefkit.commands.terminal import fields, shown

    figures = result.figures
    questions = figures["questions"]
    fields(
        [
            ("verdict", f"{figures['verdict']}: {shown(figures['advice'])}"),
            ("model", shown(result.model)),
            ("questions", ", ".join(f"{count} {split}" for split, count in questions.items())),
            ("golds", _gold_words(figures)),
            (
                "planted",
                f"{figures['planted_passed']} of {figures['planted']} wrong answers passed (another question's gold may, by chance)",
            ),
            *_answer_words(figures),
            ("prompt", f"the longest has {figures['longest_prompt']} tokens"),
            *_gain_fields(result),
        ]
    )
    for fault in figures["first_gold_faults"]:
        print(f"  {shown(fault)}")


def _answer_words(figures: Row) -> list[tuple[str, str]]:
    each = f"{figures['answers']} to {figures['prompts']} training questions, {figures['k']} each"
    return [
        ("answers", f"{each}: {figures['pass_at_1']:.1%} right"),
        (
            "",
            f"{figures['pass_at_k']:.1%} of the questions have a right one, {figures['mixed_share']:.1%} right and wrong ones",
        ),
        ("", f"no query at all in {figures['no_query_share']:.1%}; {figures['truncated']} answers did not end in time"),
    ]


def compare(results: Sequence[Result]) -> None:
    """One line for each model, and the advice for each below."""
    from prefkit.commands.terminal import console, fields, shown, table

    def line(result: Result) -> list[str]:
        shares = [f"{result.figures[key]:.1%}" for key in ("pass_at_1", "pass_at_k", "mixed_share", "no_query_share")]
        return [shown(result.model), *shares, result.figures["verdict"]]

    columns = ["model", "right", "any right", "mixed", "no query", "verdict"]
    console().print(table(columns, [line(result) for result in results], right=range(1, 5)))
    print()
    fields([(shown(result.model), shown(result.figures["advice"])) for result in results])
    print()
    fields([("golds", _gold_words(results[0].figures)), *_gain_fields(results[0])])


def gain_words(questions: dict[str, int], limits: dict[str, int | None]) -> list[str]:
    """For each held-out split the smallest gain that its questions show, and those that the recipe takes of them."""
    from prefkit.evaluate.statistics import smallest_gain

    def gain(count: int) -> str:
        least = smallest_gain(count)
        return "no gain" if least is None else f"a gain of {100 * least:.1f} points or more"

    said = []
    for split, limit in limits.items():
        count = questions.get(split, 0)
        if count:
            part = f"; the {limit} that this recipe takes, {gain(limit)}" if limit is not None and limit < count else ""
            said.append(f"{count} {split} questions show {gain(count)}{part} (four times out of five)")
    return said or ["there are no held-out questions, so no gain can be shown"]


def _gain_fields(result: Result) -> list[tuple[str, str]]:
    return [("" if index else "shows", text) for index, text in enumerate(gain_words(result.figures["questions"], result.limits))]


def _gold_words(figures: Row) -> str:
    faults = figures["gold_faults"]
    said = f"{faults} do not pass their own verifier" if faults else "all pass their own verifier"
    return f"{figures['golds_checked']} checked on every data instance; {said}"
