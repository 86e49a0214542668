"""Recipes and datasets are found in a checkout and in a built wheel, and the cache is where the user wants it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from prefkit import resources
from prefkit.errors import DataError, RecipeError

ROOT = Path(__file__).resolve().parent.parent

# What an installed prefkit says of itself: where its things are, and whose `datasets` is.
LOOK = """
import importlib.util, json, sys
sys.path.insert(0, sys.argv[1])
import prefkit
from prefkit import recipe, resources
print(json.dumps({
    "package": prefkit.__file__,
    "recipes": str(resources.recipes_dir()),
    "datasets": str(resources.datasets_dir()),
    "dataset": str(resources.dataset_path("sql-gen")),
    "hash": recipe.load("sql-gen").configuration_hash(),
    "hugging_face": importlib.util.find_spec("datasets").origin,
}))
"""


def look(folder: Path, where: Path, code: str = LOOK) -> dict[str, str]:
    """What prefkit says when it is imported from `folder` by a program that runs in `where`."""
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=where, capture_output=True, text=True, timeout=120, check=True, env=dict(os.environ)
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob("*.whl")
    return file


def test_in_a_checkout_they_stand_beside_the_package(tmp_path: Path) -> None:
    found = look(ROOT, tmp_path)
    assert Path(found["package"]) == ROOT / "prefkit" / "__init__.py"
    assert Path(found["recipes"]) == ROOT / "recipes"
    assert Path(found["dataset"]) == ROOT / "datasets" / "sql-gen"


def test_in_an_editable_install_the_checkout_is_used_and_not_the_copies_that_the_installer_made(tmp_path: Path) -> None:
    # An editable install puts the checkout on the path, after a folder with copies of the wheel's data.
    copies = tmp_path / "site-packages"
    for kind in ("recipes", "datasets"):
        (copies / "prefkit" / f"_{kind}").mkdir(parents=True)
    (tmp_path / "site-packages" / "_editable.pth").write_text(f"{ROOT}\n")
    code = LOOK.replace("sys.path.insert(0, sys.argv[1])", "import site; sys.path.insert(0, sys.argv[1]); site.addsitedir(sys.argv[1])")
    found = look(copies, tmp_path, code)
    assert Path(found["package"]) == ROOT / "prefkit" / "__init__.py"
    assert Path(found["recipes"]) == ROOT / "recipes"
    assert Path(found["datasets"]) == ROOT / "datasets"


def test_in_a_wheel_they_stand_in_the_package(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    found = look(site, tmp_path)
    assert Path(found["package"]) == site / "prefkit" / "__init__.py"
    assert Path(found["recipes"]) == site / "prefkit" / "_recipes"
    assert Path(found["datasets"]) == site / "prefkit" / "_datasets"
    assert Path(found["dataset"]) == site / "prefkit" / "_datasets" / "sql-gen"
    assert str(site) not in found["hugging_face"]
    assert found["hash"] == look(ROOT, tmp_path)["hash"]


def test_the_wheel_holds_the_package_alone_with_every_recipe_and_dataset(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = archive.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"prefkit"}
    assert "prefkit = prefkit.cli:main" in entry_points
    for kind in ("recipes", "datasets"):
        here = {
            file.relative_to(ROOT / kind).as_posix()
            for file in (ROOT / kind).rglob("*")
            if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".sqlite"
        }
        there = {name.removeprefix(f"prefkit/_{kind}/") for name in names if name.startswith(f"prefkit/_{kind}/")}
        assert here
        assert here <= there
    assert not [name for name in names if "__pycache__" in name]


def test_a_folder_datasets_beside_an_installed_package_is_not_taken_for_ours(tmp_path: Path) -> None:
    (tmp_path / "prefkit").mkdir()
    (tmp_path / "datasets").mkdir()  # as Hugging Face's stands in site-packages
    with pytest.raises(DataError, match="has no datasets"):
        resources.datasets_dir(tmp_path / "prefkit")
    (tmp_path / "pyproject.toml").touch()
    assert resources.datasets_dir(tmp_path / "prefkit") == tmp_path / "datasets"
    (tmp_path / "prefkit" / "_datasets").mkdir()
    assert resources.datasets_dir(tmp_path / "prefkit") == tmp_path / "prefkit" / "_datasets"


def test_names_are_listed_and_unknown_ones_told_with_the_nearest() -> None:
    assert resources.recipe_path("sql-gen") == ROOT / "recipes" / "sql-gen.yaml"
    assert "sql-gen" in resources.dataset_names()
    with pytest.raises(RecipeError, match=r'no recipe "sqlgen"; did you mean sql-gen'):
        resources.recipe_path("sqlgen")
    with pytest.raises(DataError, match=r'no dataset "sql_gen"; did you mean sql-gen'):
        resources.dataset_path("sql_gen")
    with pytest.raises(DataError, match="no dataset"):
        resources.dataset_path("../recipes")


def test_the_cache_is_where_the_user_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFKIT_CACHE", str(tmp_path / "mine"))
    assert resources.cache_dir("models", "embedded") == tmp_path / "mine" / "models" / "embedded"
    assert (tmp_path / "mine" / "models" / "embedded").is_dir()
    monkeypatch.delenv("PREFKIT_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resources.cache_dir() == tmp_path / ".cache" / "prefkit"


def test_a_cache_that_cannot_be_made_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PREFKIT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match="set PREFKIT_CACHE to a folder you may write to"):
        resources.cache_dir()
