"""prefkit: tasks whose answers can be checked by running them become better models. `prefkit --help` shows the commands.

The public names are imported on first use, so that `import prefkit` takes no time:

    import prefkit
    recipe = prefkit.load_recipe("sql-gen", profile="smoke")
    with prefkit.Progress() as progress:
        run = prefkit.run_recipe(recipe, prefkit.run_path(recipe.run_name), progress)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prefkit.errors import PrefkitError
    from prefkit.pipeline import plan
    from prefkit.pipeline import run as run_recipe
    from prefkit.progress import Progress, quiet
    from prefkit.recipe import Recipe
    from prefkit.recipe import load as load_recipe
    from prefkit.runfolder import RunFolder, run_path
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask
    from prefkit.verify.lines import verdicts_for_lines
    from prefkit.verify.query import query
    from prefkit.verify.scheduler import Scheduler
    from prefkit.verify.sql import SqlCheck
    from prefkit.verify.verdict import Status, Verdict

__version__ = "0.1.0"

# Public name -> where it stands: the module, and its name there.
_HOMES = {
    "Example": ("prefkit.tasks.base", "Example"),
    "PrefkitError": ("prefkit.errors", "PrefkitError"),
    "Progress": ("prefkit.progress", "Progress"),
    "Recipe": ("prefkit.recipe", "Recipe"),
    "RunFolder": ("prefkit.runfolder", "RunFolder"),
    "Scheduler": ("prefkit.verify.scheduler", "Scheduler"),
    "SqlCheck": ("prefkit.verify.sql", "SqlCheck"),
    "SqlTask": ("prefkit.tasks.sql", "SqlTask"),
    "Status": ("prefkit.verify.verdict", "Status"),
    "Verdict": ("prefkit.verify.verdict", "Verdict"),
    "load_recipe": ("prefkit.recipe", "load"),
    "plan": ("prefkit.pipeline", "plan"),
    "query": ("prefkit.verify.query", "query"),
    "quiet": ("prefkit.progress", "quiet"),
    "run_path": ("prefkit.runfolder", "run_path"),
    "run_recipe": ("prefkit.pipeline", "run"),
    "verdicts_for_lines": ("prefkit.verify.lines", "verdicts_for_lines"),
}

__all__ = [
    "Example",
    "PrefkitError",
    "Progress",
    "Recipe",
    "RunFolder",
    "Scheduler",
    "SqlCheck",
    "SqlTask",
    "Status",
    "Verdict",
    "load_recipe",
    "plan",
    "query",
    "quiet",
    "run_path",
    "run_recipe",
    "verdicts_for_lines",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'prefkit' has no attribute {name!r}")
    from importlib import import_module

    module, own = _HOMES[name]
    return getattr(import_module(module), own)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
