"""What a training does at its steps: metrics to the main process, candidates for selection. Imported inside functions only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from prefkit.memory import return_memory
from prefkit.train.training import write_adapter


class MetricsCallback(TrainerCallback):
    """Sends every logged step to the main process and keeps the numbers that the stage reports."""

    def __init__(self, report: Callable[[dict], None]):
        self.report = report
        self.rows: list[dict] = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        metrics = {key: float(value) for key, value in (logs or {}).items() if isinstance(value, int | float)}
        if "train_runtime" in metrics or not metrics:
            return
        self.rows.append(metrics)
        if state.is_world_process_zero:
            self.report({"progress": state.global_step, "total": state.max_steps, "metrics": metrics})

    def first(self, name: str) -> float | None:
        return next((row[name] for row in self.rows if name in row), None)

    def last(self, name: str) -> float | None:
        return next((row[name] for row in reversed(self.rows) if name in row), None)


class MemoryCallback(TrainerCallback):
    """Returns freed memory every few steps: batches differ in size, so the heap fragments (2.0 GB grew to 3.2 GB in 100 steps)."""

    def __init__(self, every: int):
        self.every = every

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % self.every == 0:
            return_memory()


class CandidateCallback(TrainerCallback):
    """Keeps the adapter every `every` steps, and at the last one, as `folder`/step-N: candidates for selection on validation."""

    def __init__(self, folder: Path, every: int):
        self.folder, self.every = folder, every

    def on_step_end(self, args, state, control, model: Any = None, **kwargs):
        if state.is_world_process_zero and (state.global_step % self.every == 0 or state.global_step == state.max_steps):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_adapter(getattr(model, "module", model), self.folder / f"step-{state.global_step}")
