"""`prefkit ready`: has this task a verifier, and this model anything to learn from?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefkit.commands.arguments import Parser, recipe_options, whole
from prefkit.errors import DataError, PrefkitError, RunError

if TYPE_CHECKING:
    from prefkit.commands.ready_measure import Candidate, Size
    from prefkit.recipe import Recipe

ABOUT = (
    "Before any training: do the golds pass their own verifier, what can the model do already, and how small a gain can the questions "
    "show? With several models, which one to begin with."
)
EXAMPLE = "prefkit ready sql-gen --model embedded --model ./my-model"

Row = dict[str, Any]


def arguments(parser: Parser) -> None:
    parser.add_argument("recipe", metavar="NAME|FILE", help="a shipped recipe (`prefkit recipes`) or a YAML file")
    parser.add_argument(
        "--model",
        dest="models",
        action="append",
        default=[],
        metavar="M",
        help="embedded, a folder, a Hugging Face name, or a run or its adapter; several to compare them",
    )
    parser.add_argument(
        "--answers",
        action="append",
        default=[],
        metavar="FILE",
        help='judge answers of any other system: lines of {"id": question, "answers": [text, …]}; no model is loaded for them',
    )
    recipe_options(parser)
    parser.add_argument("--questions", type=whole(1), metavar="N", help="questions that each model answers (else 48; smoke: 8)")
    parser.add_argument("--samples", type=whole(1), metavar="K", help="answers to each (else 8; smoke: 4)")
    parser.add_argument(
        "--after", metavar="RUN|RATE", help="what a warm start leads to: a run, or a pass rate to assume (else the newest run like this)"
    )
    parser.add_argument("--json", dest="json_file", type=Path, metavar="FILE", help="write all figures to a file")


def run(options: Any) -> int:
    from prefkit.commands import ready_measure, ready_show
    from prefkit.commands.ready_after import after_warm_start
    from prefkit.commands.recipe import warn_through
    from prefkit.progress import Progress

    base = _recipe(options)
    after = after_warm_start(options.after, base)
    with Progress() as progress:
        warn_through(progress)
        check = ready_measure.TaskCheck(base, _task(base), progress)
        for note in check.task.notes:
            progress.say(f"note: {note}")
        results, failed = _measured(options, base, lambda one, size, split: ready_measure.measure(one, check, size, split))
    for result in results:
        result["after"] = after
        result["gains"] = ready_show.gains(result["questions"], {"test": base.limits.test, "unseen": base.limits.unseen})
    if len(results) == 1 and not failed:
        ready_show.show(results[0])
    elif results:
        ready_show.compare(results)
    if options.json_file is not None:
        _write(options.json_file, base, results)
    return 2 if failed else 0


def _measured(options: Any, base: Recipe, measure: Any) -> tuple[list[Row], int]:
    """The figures of each candidate, and how many could not be had; one that cannot does not keep the others from being compared."""
    results: list[Row] = []
    failed = 0
    candidates, names = [], [*((name, None) for name in options.models), *((None, file) for file in options.answers)]
    names = list(dict.fromkeys(names)) or [(base.model.name, None)]
    for model, answers in names:
        try:
            candidates.append(_candidate(model, answers, base))
        except PrefkitError as error:
            failed += _refused(error, model or answers, len(names))
    split = _split(candidates)
    for candidate in candidates:
        try:
            results.append(measure(candidate, _size(options, base), split))
        except PrefkitError as error:
            failed += _refused(error, candidate.name, len(names))
    return results, failed


def _refused(error: PrefkitError, name: str | None, of: int) -> int:
    if of < 2:
        raise error
    print(f"prefkit: {name}: {error}", file=sys.stderr)
    return 1


def _candidate(model: str | None, answers: str | None, base: Recipe) -> Candidate:
    from prefkit.commands import ready_measure

    return ready_measure.candidate_of(model, base) if model else ready_measure.answers_candidate(answers or "", base)


def _split(candidates: list[Candidate]) -> str:
    """The split that models are asked: what training would ask; with an adapter, which was trained on some of it, validation for all."""
    return "validation" if any(candidate.adapter for candidate in candidates) else "train"


def _size(options: Any, base: Recipe) -> Size:
    from prefkit.commands.ready_measure import Size

    smoke = base.profile == "smoke"
    return Size(options.questions or (8 if smoke else 48), options.samples or (4 if smoke else 8), 8 if smoke else 40)


def _recipe(options: Any) -> Recipe:
    from prefkit import recipe

    return recipe.load(options.recipe, profile=options.profile, overrides=[*options.overrides, "track.wandb=off"])


def _task(base: Recipe) -> Any:
    """The recipe's task. Questions of one's own with a query that does not run are refused as they are read: that is a verdict, too."""
    from prefkit.context import load_task

    try:
        return load_task(base)
    except DataError as error:
        if base.task.questions and Path(base.task.questions).is_file():
            raise DataError(f"fix the data: {error}") from error
        raise


def _write(file: Path, base: Recipe, results: list[Row]) -> None:
    from prefkit.data.model_choice import choose
    from prefkit.files import write_text

    chosen, why = choose(results) if len(results) > 1 else (None, None)
    whole = {"recipe": base.name, "profile": base.profile, "chosen": chosen, "why": why, "results": results}
    try:
        write_text(file, json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    except OSError as error:
        raise RunError(f"{file} cannot be written ({error.strerror}).") from error
