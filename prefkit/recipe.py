"""Recipe: what a loop does, as typed settings in one YAML file that a person can read aloud.

A recipe file gives what differs from the defaults in recipe_fields.py. Profiles are overlays in the same file; `--set key=value` goes
on top. Unknown keys, wrong types and impossible values are refused with their line and the mend.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from . import recipe_text, resources
from .errors import RecipeError
from .hashing import hash_value
from .names import suggestion
from .recipe_fields import (
    PROFILES,
    Calibrate,
    Corrections,
    Evaluate,
    Expected,
    Group,
    Judge,
    Limits,
    Model,
    Pairs,
    Profile,
    Rollouts,
    Select,
    Task,
    Track,
    WarmStart,
)
from .recipe_messages import problems
from .recipe_text import Text


class Recipe(Group):
    """One loop from task to report. `load` makes one; `to_yaml` writes it down again, profile and overrides included."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="small letters, digits and hyphens; names the run folder")
    title: str = Field(default="", description="one line for the list of recipes")
    description: str = Field(default="", description="what the loop teaches and to whom")
    profile: Profile = Field(default="cpu", description="the profile that these values are for")
    task: Task = Task()
    model: Model = Model()
    seed: int = Field(default=0, ge=0, lt=2**32, description="seed of everything random")
    threads: int | None = Field(default=None, ge=1, le=4096, description="processor threads, or null for all")
    limits: Limits = Limits()
    rollouts: Rollouts = Rollouts()
    corrections: Corrections = Corrections()
    pairs: Pairs = Pairs()
    warm_start: WarmStart = WarmStart()
    calibrate: Calibrate = Calibrate()
    select: Select = Select()
    evaluate: Evaluate = Evaluate()
    judge: Judge = Judge()
    track: Track = Track()
    expected: Expected | None = Field(default=None, description="memory and minutes of this profile, as measured")
    next: list[str] = Field(default=[], description="the recipes that follow on")

    def configuration_hash(self) -> str:
        """SHA-256 of everything that changes a result. Texts, threads, trackers, expectations and the next recipes do not count."""
        return hash_value(self.model_dump(exclude=_NO_RESULT))

    @property
    def run_name(self) -> str:
        """The name of the run folder: the recipe's name and the first ten digits of the configuration hash."""
        return f"{self.name}-{self.configuration_hash()[:10]}"

    def corrects(self, index: int) -> bool:
        """Whether round `index` of the warm start has corrections."""
        wanted = self.corrections.references or self.warm_start.rounds[index].source == "own"
        return wanted and self.corrections.turns > 0

    def to_yaml(self) -> str:
        """The recipe with every value, as `load` reads it: same values, same hash."""
        return f"# Every setting of this run. Run it again with: prefkit recipe FILE\n{recipe_text.write(self.model_dump())}"


_NO_RESULT = {"title", "description", "profile", "threads", "track", "expected", "next"}


def load(source: str | Path, *, profile: str | None = None, overrides: Sequence[str] = (), model: str | None = None) -> Recipe:
    """The recipe `source` with its profile, then `overrides` ("key=value"), then `model` put on top.

    `source` is the name of a shipped recipe, a YAML file, or a run folder. Without `profile` it is the file's own, which is cpu unless it
    says otherwise. Relative paths of the user's data are taken from the recipe's folder in a file, from the working folder in an override.
    RecipeError names every problem with its line and the mend.
    """
    file, label = _find(source)
    text, overlays = _split_profiles(recipe_text.read(_read_file(file), label), label)
    for name in overlays:
        _validated(_with_profile(text, overlays, name))  # a mistake in a profile is told before the day it is used
    _validated(text)
    chosen = _chosen_profile(text, overlays, profile, label)
    recipe = _validated(_with_profile(text, overlays, chosen))
    changed = Text(_absolute_paths(recipe.model_dump(), file.parent), {**_with_profile(text, overlays, chosen).places, (): label})
    for assignment in [*overrides, *([f"model.name={model}"] if model else [])]:
        _refuse_profile_override(assignment)
        changed = recipe_text.override(changed, assignment)
    changed.values = _absolute_paths(changed.values, Path.cwd())
    return _validated(changed)


def profiles_of(source: str | Path) -> list[str]:
    """The profiles that a recipe can be run with, cpu first."""
    file, label = _find(source)
    text, overlays = _split_profiles(recipe_text.read(_read_file(file), label), label)
    resolved = text.values.get("profile", "cpu")
    return [name for name in PROFILES if name in overlays or name == resolved]


def catalogue() -> list[Recipe]:
    """The shipped recipes in their default profile, in the order of their names."""
    return [load(path) for path in resources.recipe_paths().values()]


def graph() -> dict[str, list[str]]:
    """Which shipped recipe leads to which: name -> names of the next ones. RecipeError for a next one that is not there."""
    edges = {recipe.name: list(recipe.next) for recipe in catalogue()}
    for name, following in edges.items():
        for target in following:
            if target not in edges:
                raise RecipeError(f"recipes/{name}.yaml: next names the recipe {target!r}; {suggestion(target, edges)}")
    return edges


def _find(source: str | Path) -> tuple[Path, str]:
    """The recipe's file and what messages call it."""
    path = Path(source).expanduser()
    if path.is_dir() and (path / "recipe.yaml").is_file():
        path = path / "recipe.yaml"
    if path.suffix in (".yaml", ".yml") or path.is_file():
        if not path.is_file():
            raise RecipeError(f"{path}: there is no such file. Shipped recipes: {', '.join(resources.recipe_paths())}.")
        return path.absolute(), str(source if path.name == Path(source).name else path)
    return resources.recipe_path(str(source)), f"recipes/{source}.yaml"


def _read_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{file}: not UTF-8 text (byte {error.start}). A recipe is a text file.") from error
    except OSError as error:
        raise RecipeError(f"{file}: cannot be read ({error.strerror}).") from error


def _split_profiles(text: Text, label: str) -> tuple[Text, dict[str, dict[str, Any]]]:
    overlays = text.values.get("profiles")
    values = {key: value for key, value in text.values.items() if key != "profiles"}
    if overlays is None:
        return Text(values, text.places), {}
    if not isinstance(overlays, dict):
        raise RecipeError(f"{text.place(('profiles',))}: profiles is {overlays!r}; expected a group with any of {', '.join(PROFILES)}.")
    for name, over in overlays.items():
        if name not in PROFILES:
            raise RecipeError(f"{text.place(('profiles', name))}: there is no profile {name!r}; {suggestion(name, PROFILES)}")
        if not isinstance(over, dict):
            raise RecipeError(f"{text.place(('profiles', name))}: the profile {name} is {over!r}; expected the settings that differ.")
        for fixed in ("name", "profile", "profiles"):
            if fixed in over:
                raise RecipeError(f"{text.place(('profiles', name, fixed))}: a profile cannot change {fixed}; take it out.")
    return Text(values, text.places), overlays


def _with_profile(text: Text, overlays: dict[str, dict[str, Any]], name: str) -> Text:
    if name not in overlays:
        return text
    start = ("profiles", name)
    places = {key[2:]: place for key, place in text.places.items() if key[:2] == start and len(key) > 2}
    return recipe_text.overlay(text, {**overlays[name], "profile": name}, places)


def _chosen_profile(text: Text, overlays: dict[str, dict[str, Any]], wanted: str | None, label: str) -> str:
    own = text.values.get("profile", "cpu")
    if wanted is None or wanted == own:
        return own
    if wanted not in PROFILES:
        raise RecipeError(f"there is no profile {wanted!r}; {suggestion(wanted, PROFILES)}")
    if wanted not in overlays:
        there = [name for name in PROFILES if name in overlays or name == own]
        raise RecipeError(f"{label} has no profile {wanted}; {suggestion(wanted, there)}")
    return wanted


def _refuse_profile_override(assignment: str) -> None:
    key = assignment.partition("=")[0].strip().split(".")[0]
    if key in ("profile", "profiles"):
        raise RecipeError(f"--set {assignment}: choose a profile with --profile {'|'.join(PROFILES)}, and set a value by its own key.")
    if key == "name":
        raise RecipeError(f"--set {assignment}: the name of a recipe stands in its file; choose a run folder with --run DIR.")


def _absolute_paths(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same values with the user's files as absolute paths, so that a run can be continued from any folder."""

    def absolute(value: Any) -> Any:
        if isinstance(value, list):
            return [absolute(item) for item in value]
        return str(folder / Path(value).expanduser()) if isinstance(value, str) and value else value

    task, model = values.get("task"), values.get("model")
    if isinstance(task, dict):
        files = ("database", "questions", "augmented", "ingested")
        values = {**values, "task": {**task, **{key: absolute(task[key]) for key in files if key in task}}}
    name = model.get("name") if isinstance(model, dict) else None
    if isinstance(name, str) and name != "embedded" and (name.startswith((".", "~", "/")) or (folder / name).is_dir()):
        values = {**values, "model": {**values["model"], "name": absolute(name)}}
    if isinstance(model, dict) and model.get("adapter"):
        values = {**values, "model": {**values["model"], "adapter": absolute(model["adapter"])}}
    return values


def _validated(text: Text) -> Recipe:
    try:
        return Recipe.model_validate(text.values)
    except ValidationError as error:
        raise RecipeError("\n".join(problems(error, Recipe, text))) from error


__all__ = ["PROFILES", "Recipe", "catalogue", "graph", "load", "profiles_of"]
