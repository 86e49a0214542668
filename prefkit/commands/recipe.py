"""`prefkit recipe`: run a loop over its run folder."""

from __future__ import annotations

import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefkit.commands.arguments import Parser, recipe_options
from prefkit.errors import RunError

if TYPE_CHECKING:
    from prefkit.progress import Progress
    from prefkit.recipe import Recipe
    from prefkit.runfolder import RunFolder

ABOUT = "Run a loop from its task to its report. The same command again goes on where it was, and skips what is finished and unchanged."
EXAMPLE = "prefkit recipe sql-gen --set task.database=my.sqlite --set task.questions=my.csv"


def arguments(parser: Parser) -> None:
    parser.add_argument("recipe", metavar="NAME|FILE", help="a shipped recipe (`prefkit recipes`), a YAML file, or a run folder")
    recipe_options(parser)
    parser.add_argument("--model", metavar="M", help="embedded, a folder, or a Hugging Face name")
    parser.add_argument("--from", dest="start", type=Path, metavar="RUN", help="go on from the model of a finished run")
    parser.add_argument(
        "--with",
        dest="ingested",
        type=Path,
        action="append",
        default=[],
        metavar="INGESTED",
        help="train on what `prefkit ingest` wrote too",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--run", type=Path, metavar="DIR", help="the run folder (else runs/NAME-HASH, the same for the same settings)")
    where.add_argument("--fresh", action="store_true", help="a new run folder, although there is one with these settings")
    parser.add_argument("--resume", action="store_true", help="go on with a run that is there, and begin no new one")
    parser.add_argument("--dry-run", action="store_true", help="show the plan: stages, minutes, memory, files; run nothing")


def run(options: Any) -> int:
    from prefkit import lineage, pipeline, recipe
    from prefkit.commands import machine, plan
    from prefkit.progress import Progress

    if options.fresh and options.resume:
        raise RunError("--fresh begins a new run and --resume goes on with an old one; give one of them.")
    overrides = [*options.overrides, *lineage.overrides(options.start, options.ingested)]
    chosen = recipe.load(options.recipe, profile=options.profile, overrides=overrides, model=options.model)
    folder = run_folder(options, chosen)
    if options.dry_run:
        plan.show(chosen, folder, changed=bool(overrides or options.model))
        return 0
    machine.require(chosen.profile, chosen.model.name)
    try:
        with Progress() as progress:
            warn_through(progress)
            progress.say(f"run folder: {folder}")
            before = begun(folder)
            done = pipeline.run(chosen, folder, progress)
    except KeyboardInterrupt:
        begun_there = (folder / "manifest.json").is_file()
        mend = f"Go on with: {resume_command(options.given, folder)}" if begun_there else "Nothing was written yet."
        print(f"Stopped. {mend}", file=sys.stderr)
        return 130
    if begun(folder) == before:
        print(f"nothing to do: all {len(pipeline.plan(chosen))} stages of this run are finished and unchanged (--fresh runs them again)")
    _show_end(done)
    return 0


def run_folder(options: Any, chosen: Recipe) -> Path:
    """The folder that the options mean. Raises RunError for one that cannot be used for this recipe."""
    from prefkit.runfolder import run_path

    source = Path(options.recipe)
    folder = options.run
    if folder is None:
        own = source if (source / "manifest.json").is_file() and not options.fresh and _same_settings(source, chosen) else None
        folder = own or run_path(chosen.run_name, fresh=options.fresh)
    there = (folder / "manifest.json").is_file()
    if options.resume and not there:
        runs = ", ".join(str(path.parent) for path in sorted(folder.parent.glob(f"{chosen.name}*/manifest.json")))
        mend = f"There are: {runs}; name one with --run DIR, or give its own settings." if runs else "Leave --resume out to begin it."
        raise RunError(f"there is no run in {folder} to go on with. {mend}")
    if there:
        _refuse_other_recipe(folder, chosen)
    elif folder.is_file() or (folder.is_dir() and any(not path.name.startswith(".") and path.name != "logs" for path in folder.iterdir())):
        raise RunError(f"{folder} is there already and is no run folder; name a new or an empty folder with --run.")
    return folder


def _same_settings(folder: Path, chosen: Recipe) -> bool:
    from prefkit import recipe

    return recipe.load(folder).configuration_hash() == chosen.configuration_hash()


def _refuse_other_recipe(folder: Path, chosen: Recipe) -> None:
    from prefkit.runfolder import RunFolder

    name = RunFolder(folder).manifest.get("recipe")
    if name not in (None, chosen.name):
        raise RunError(f"{folder} is a run of the recipe {name}, not of {chosen.name}; name another folder with --run.")


def begun(folder: Path) -> int:
    """How many times a stage was begun in this folder."""
    from prefkit.runfolder import RunFolder

    return sum(event.get("kind") == "begin" for event in RunFolder(folder).read_events())


def resume_command(given: list[str], folder: Path) -> str:
    """The command that goes on with a run, whatever options began it."""
    kept = [word for word in given if word not in ("--fresh", "--resume")]
    if not any(word == "--run" or word.startswith("--run=") for word in kept):
        kept += ["--run", str(folder)]
    return shlex.join(["prefkit", *kept, "--resume"])


def warn_through(progress: Progress) -> None:
    """Show prefkit's own warnings as lines of the view, without the place in the code; others belong to libraries and are not shown."""
    from prefkit.report.wandb_report import TrackerWarning

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, TrackerWarning):
            progress.say(f"warning: {message}")

    warnings.showwarning = show
    warnings.simplefilter("always", TrackerWarning)


def _show_end(run: RunFolder) -> None:
    """The headline, where things lie, and what to do next."""
    from prefkit.commands.terminal import fields, paragraph

    folder = shlex.quote(str(run.path))
    print()
    paragraph(run.read_json("ledger.json")["headline"]["sentence"])
    print()
    fields(
        [
            ("run", str(run.path)),
            ("report", str(run.file("report.html"))),
        ]
    )
    # Commands are printed whole, so that they can be copied.
    print(f'next    prefkit ask {folder} "your question"\n        prefkit report {folder} --open\n        prefkit export {folder} DIR')
