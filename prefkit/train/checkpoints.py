"""The checkpoints of an interrupted training: which are whole, and which one to go on from. Imports no torch."""

from __future__ import annotations

import shutil
from pathlib import Path

# trainer_state.json is the last file that transformers writes into a checkpoint.
WHOLE = ("adapter_model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json")


def whole_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """(step, folder) of the checkpoints under `folder`/checkpoints that were written to the end, by step."""
    found = [
        (int(path.name.split("-")[1]), path) for path in (folder / "checkpoints").glob("checkpoint-*") if path.name.split("-")[1].isdigit()
    ]
    return sorted((step, path) for step, path in found if all((path / name).is_file() for name in WHOLE))


def latest_checkpoint(folder: Path) -> str | None:
    """The newest whole checkpoint, or None where training begins anew. Torn ones (killed while they were written) are removed."""
    whole = whole_checkpoints(folder)
    for path in (folder / "checkpoints").glob("*"):
        if path not in [kept for _, kept in whole]:
            shutil.rmtree(path, ignore_errors=True)
    return str(whole[-1][1]) if whole else None
