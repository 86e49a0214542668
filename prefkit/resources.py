"""Where the shipped recipes and datasets lie, in an editable install and in a wheel, and where the cache lies."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import DataError, RecipeError
from .names import suggestion

_PACKAGE = Path(__file__).resolve().parent


def recipes_dir(package: Path = _PACKAGE) -> Path:
    """The folder of the shipped recipes. `package` is the folder of the package prefkit."""
    return _shipped("recipes", package)


def datasets_dir(package: Path = _PACKAGE) -> Path:
    """The folder of the shipped datasets, one folder for each. It may be read-only: build into `cache_dir()`."""
    return _shipped("datasets", package)


def recipe_paths() -> dict[str, Path]:
    """The shipped recipes: name -> YAML file, in the order of their names."""
    return {path.stem: path for path in sorted(recipes_dir().glob("*.yaml"))}


def recipe_path(name: str) -> Path:
    """The YAML file of the shipped recipe `name`; RecipeError with the nearest names where there is none."""
    known = recipe_paths()
    if name not in known:
        raise RecipeError(f'there is no recipe "{name}"; {suggestion(name, known)} A recipe file of your own is named with its .yaml.')
    return known[name]


def dataset_names() -> list[str]:
    """The names of the shipped datasets."""
    return sorted(path.name for path in datasets_dir().iterdir() if path.is_dir() and not path.name.startswith((".", "_")))


def dataset_path(name: str) -> Path:
    """The folder of the shipped dataset `name`; DataError with the nearest names where there is none."""
    known = dataset_names()
    if name not in known:
        raise DataError(f'there is no dataset "{name}"; {suggestion(name, known)}')
    return datasets_dir() / name


def cache_dir(*parts: str) -> Path:
    """The cache folder (PREFKIT_CACHE, else ~/.cache/prefkit) or a folder below it, made where missing."""
    root = Path(os.environ.get("PREFKIT_CACHE") or Path.home() / ".cache" / "prefkit").expanduser().absolute()
    folder = root.joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot make the cache folder {folder} ({error.strerror}); set PREFKIT_CACHE to a folder you may write to."
        raise DataError(message) from error
    return folder


def _shipped(kind: str, package: Path) -> Path:
    inside_wheel = package / f"_{kind}"
    if inside_wheel.is_dir():
        return inside_wheel
    # Beside the package only in a checkout: in site-packages a folder "datasets" there would be Hugging Face's.
    if (package.parent / "pyproject.toml").is_file() and (package.parent / kind).is_dir():
        return package.parent / kind
    raise DataError(f"this installation of prefkit has no {kind} (looked in {inside_wheel} and {package.parent / kind}); install it again.")
