"""What may be expected after a warm start: from a finished run of the recipe, from a rate that the user assumes, or not known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefkit.data.pass_rates import signal_share
from prefkit.data.rollouts import grouped
from prefkit.errors import PrefkitError, RunError

if TYPE_CHECKING:
    from prefkit.recipe import Recipe
    from prefkit.runfolder import RunFolder

Row = dict[str, Any]


def after_warm_start(given: str | None, recipe: Recipe) -> Row:
    """The expected share of groups with signal after a warm start: {"signal", "rests_on"}; `signal` is None where nothing is known.

    given: a run folder, an assumed pass rate between 0 and 1, or None for the newest run of this recipe, model and data below runs/.
    """
    rate = _rate(given)
    if rate is not None:
        # 1 - p^k - (1 - p)^k is concave in p, so equal rates give the most.
        share = 1 - rate**recipe.calibrate.k - (1 - rate) ** recipe.calibrate.k
        signal = {"mean": share, "low": 0.0, "high": share, "n": 0}
        return {"signal": signal, "rests_on": f"at most, if each question is answered right {100 * rate:g} % of the time, as you assume"}
    if given is not None:
        return _of_run(_named_run(given), recipe.calibrate.k)
    run = next(iter(sorted(_runs(recipe), key=lambda run: run.file("manifest.json").stat().st_mtime, reverse=True)), None)
    if run is None:
        return {
            "signal": None,
            "rests_on": "not known: there is no run of this recipe with this model and data below runs/ that got so far; name one with "
            "--after RUN, or assume a pass rate, such as --after 0.3",
        }
    return _of_run(run, recipe.calibrate.k)


def _rate(given: str | None) -> float | None:
    try:
        rate = float(given or "")
    except ValueError:
        return None
    if not 0 <= rate <= 1:
        raise RunError(f"--after {given}: a pass rate is between 0 and 1, such as 0.3; or name a run folder.")
    return rate


def _named_run(given: str) -> RunFolder:
    from prefkit.runfolder import RunFolder

    run = RunFolder.existing(Path(given).expanduser())
    if _stage(run) is None:
        raise RunError(f"{run.path} has no answers of a warm-started model: its first round has not ended, or there was no second stage.")
    return run


def _runs(recipe: Recipe) -> Iterator[RunFolder]:
    """Runs below runs/ of the same recipe, model and data with answers of a warm-started model."""
    from prefkit import recipe as recipes
    from prefkit.runfolder import RunFolder

    for manifest in sorted(Path("runs").glob("*/manifest.json")):
        run = RunFolder(manifest.parent)
        try:
            if run.manifest.get("recipe") != recipe.name or _stage(run) is None:
                continue
            other = recipes.load(run.path)
        except PrefkitError:  # a folder that cannot be read is no evidence, and not this command's concern
            continue
        if other.model == recipe.model and other.task == recipe.task:
            yield run


def _stage(run: RunFolder) -> str | None:
    """The last stage that asked a warm-started model questions on which nobody had trained it."""
    stages = run.manifest["stages"]
    done = [name for name, entry in stages.items() if entry.get("status") == "done"]
    own = sorted((name for name in done if name.startswith("rollouts-") and name[9:].isdigit() and int(name[9:])), key=lambda n: int(n[9:]))
    return "rollouts-calibrate" if "rollouts-calibrate" in done else own[-1] if own else None


def _of_run(run: RunFolder, k: int) -> Row:
    stage = _stage(run)
    rows, verdicts = (run.read_rows(f"{kind}/{stage}.parquet") for kind in ("rollouts", "verdicts"))
    counts = [(len(group), sum(verdict["score"] == 1 for _, verdict in group)) for group in grouped(rows, verdicts).values()]
    right, answers = sum(right for _, right in counts), sum(answers for answers, _ in counts)
    said = f"from {run.path}, stage {stage}: {right} of {answers} answers to {len(counts)} questions were right"
    return {"signal": signal_share(counts, k).to_dict(), "rests_on": said}
