"""What a run goes on from: the adapter of an earlier run (--from RUN), and rows out of production (--with INGESTED).

Both are fields of the recipe (`model.adapter`, `task.ingested`), so recipe.yaml says all of it; their content is part of the inputs of the
stages that take them, and the manifest names them with their hashes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefkit.context import load_task
from prefkit.data.history import Ingested, round_of
from prefkit.data.ingest_judge import Known
from prefkit.errors import PrefkitError, RunError
from prefkit.files import WEIGHTS
from prefkit.hashing import hash_bytes
from prefkit.recipe import Recipe, load
from prefkit.runfolder import RunFolder
from prefkit.tasks.names import HELD_OUT
from prefkit.tasks.sql import SqlTask


def overrides(start: Path | None, ingested: Sequence[Path]) -> list[str]:
    """The settings that --from and --with stand for. RunError for a run without a final adapter."""
    found = []
    if start is not None:
        adapter = RunFolder.existing(start).file("adapter")
        if not (adapter / WEIGHTS).is_file():
            raise RunError(f"{start} has no final adapter yet to go on from. Let it end: prefkit recipe {start} --resume")
        found.append(f"model.adapter={json.dumps(str(adapter.absolute()), ensure_ascii=False)}")
    if ingested:
        found.append(f"task.ingested={json.dumps([str(path.absolute()) for path in ingested], ensure_ascii=False)}")
    return found


def inputs(recipe: Recipe) -> dict[str, Any]:
    """The content that a run goes on from, as hashes: of the adapter's weights, and of each ingested folder. RunError or DataError where
    it is not there."""
    return {
        "adapter": _weights(recipe.model.adapter) if recipe.model.adapter else None,
        "ingested": [Ingested.read(folder).sha256 for folder in recipe.task.ingested_folders],
    }


def named(recipe: Recipe) -> dict[str, Any]:
    """What the manifest says of it: where it lay, and its hashes."""
    hashes, found = inputs(recipe), {}
    if recipe.model.adapter:
        found["from"] = {"adapter": recipe.model.adapter, "sha256": hashes["adapter"]}
    if recipe.task.ingested_folders:
        pairs = zip(recipe.task.ingested_folders, hashes["ingested"], strict=True)
        found["with"] = [{"folder": folder, "sha256": sha256} for folder, sha256 in pairs]
    return found


def check(recipe: Recipe, task: SqlTask, folder: Path) -> None:
    """Whether the run in `folder` can go on from there: same model, same shape of adapter, nothing held out that was trained on.

    Raises RunError with the mend.
    """
    if recipe.task.ingested_folders and round_of(recipe.warm_start.rounds) is None:
        raise RunError(
            "what is ingested trains in the first round on references, and this recipe has none: "
            "--set warm_start.rounds.0.source=references"
        )
    if not recipe.model.adapter:
        return
    adapter = Path(recipe.model.adapter)
    if adapter.resolve().is_relative_to(folder.resolve()):
        raise RunError(f"{folder} would go on from its own adapter and write over it; name another folder with --run, or leave --run out.")
    _check_shape(recipe, adapter)
    if (adapter.parent / "recipe.yaml").is_file():
        _check_run(recipe, task, adapter.parent)


def _weights(adapter: str) -> str:
    file = Path(adapter) / WEIGHTS
    if not file.is_file():
        raise RunError(f"there is no adapter in {adapter}: it has no {WEIGHTS}. Name a finished run with --from RUN.")
    return hash_bytes(file)


def _check_shape(recipe: Recipe, adapter: Path) -> None:
    _weights(str(adapter))
    try:
        config = json.loads((adapter / "adapter_config.json").read_bytes())
        shape = {"rank": config["r"], "alpha": config["lora_alpha"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{adapter / 'adapter_config.json'} cannot be read ({type(error).__name__}); name a finished run with --from RUN."
        ) from error
    lora = recipe.model.lora
    for name, value in shape.items():
        if value != getattr(lora, name):
            mend = f"--set model.lora.{name}={value}"
            raise RunError(f"the adapter in {adapter} has lora {name} {value}, this recipe {getattr(lora, name)}: add {mend}")


def _check_run(recipe: Recipe, task: SqlTask, run: Path) -> None:
    """The earlier run's own recipe: its model, its layers, and the questions that it trained on."""
    earlier = load(run)
    mend = f"begin from that run's own settings: prefkit recipe {run} --from {run}"
    if earlier.model.name != recipe.model.name:
        raise RunError(f"{run} trained an adapter for the model {earlier.model.name}, this recipe has {recipe.model.name}: {mend}")
    if earlier.model.lora.targets != recipe.model.lora.targets:
        targets = (earlier.model.lora.targets, recipe.model.lora.targets)
        raise RunError(f"{run} trained the layers {targets[0]}, this recipe trains {targets[1]}: {mend}")
    without = {"ingested"}
    if earlier.task.model_dump(exclude=without) == recipe.task.model_dump(exclude=without):
        return  # one split, so nobody trained on what is held out here
    try:
        before = load_task(earlier)
    except PrefkitError as error:
        raise RunError(f"it cannot be seen whether {run} trained on questions that are held out here: {error}") from error
    known = Known(task)
    trained = [example for split in before.splits if split not in HELD_OUT for example in before.load(split)]
    found = [known.find(example.database, example.question) for example in trained]
    leaks = [example for example in found if example is not None and example.split in HELD_OUT]
    if leaks:
        first = f"{leaks[0].split}: {leaks[0].question[:80]}"
        raise RunError(f"{run} trained on {len(leaks)} questions that this task holds out (first, in {first}): {mend}")
