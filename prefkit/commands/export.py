"""`prefkit export`: a run's adapter or its merged model, with a card, in a folder of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefkit.commands.arguments import Parser
from prefkit.errors import RunError
from prefkit.files import ADAPTER_FILES

if TYPE_CHECKING:
    from prefkit.recipe import Recipe
    from prefkit.runfolder import RunFolder

ABOUT = (
    "Write a run's trained adapter, or the model with the adapter merged into it, with a card: figures, how to load it, how to serve it."
)
EXAMPLE = "prefkit export runs/sql-gen-0123456789 my-sql-model --merged"


def arguments(parser: Parser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder that is finished")
    parser.add_argument("target", type=Path, metavar="DIR", help="a new or an empty folder")
    parser.add_argument(
        "--merged", action="store_true", help="the whole model, which needs no adapter library, instead of the adapter alone"
    )


def run(options: Any) -> int:
    from prefkit import recipe
    from prefkit.commands import card
    from prefkit.files import replacing_folder
    from prefkit.runfolder import RunFolder

    source = RunFolder.existing(options.run)
    missing = [name for name in ADAPTER_FILES if not source.file(f"adapter/{name}").is_file()]
    if missing:
        raise RunError(
            f"{source.path} has no trained adapter yet ({missing[0]} is missing). Let the run end: prefkit recipe {source.path} --resume"
        )
    _refuse_used(options.target)
    chosen = recipe.load(source.path)
    text = card.text(source, chosen, options.target.resolve().name, options.merged)
    with replacing_folder(options.target) as folder:
        if options.merged:
            merge(source, chosen, folder)
        else:
            copy_adapter(source, chosen, folder)
        (folder / "README.md").write_text(text, encoding="utf-8")
        for file in folder.iterdir():
            file.chmod(0o644)  # some writers leave weights to their owner alone; a folder that is passed on is for others
    size = sum(file.stat().st_size for file in options.target.rglob("*") if file.is_file())
    what = "merged model" if options.merged else "adapter"
    print(f"{what} ({size / 1e6:.0f} MB) in {options.target}; how to load and serve it stands in {options.target / 'README.md'}")
    return 0


def _refuse_used(target: Path) -> None:
    if target.is_file() or (target.is_dir() and any(target.iterdir())):
        raise RunError(f"{target} is there already and is not empty; name a new folder.")


def copy_adapter(source: RunFolder, chosen: Recipe, folder: Path) -> None:
    """The adapter's files, with the base model under the name by which others find it."""
    from prefkit.commands.card import base_name

    shutil.copyfile(source.file("adapter/adapter_model.safetensors"), folder / "adapter_model.safetensors")
    config = json.loads(source.file("adapter/adapter_config.json").read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = base_name(chosen)
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def merge(source: RunFolder, chosen: Recipe, folder: Path) -> None:
    """The whole model, written by a model process."""
    from prefkit.progress import Progress
    from prefkit.resources import cache_dir
    from prefkit.scale.workers import Workers

    model = {"name": chosen.model.name, "quantization": chosen.model.quantization, "dtype": chosen.model.dtype, "cache": str(cache_dir())}
    job = {"model": model, "adapter": str(source.file("adapter").resolve()), "output": str(folder.resolve())}
    with Workers(cache_dir("logs"), processes=1) as pool, Progress() as progress:
        for _ in progress.track(pool.map("merge", [job]), "merging", 1):
            pass
