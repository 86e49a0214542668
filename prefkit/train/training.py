"""What both trainers share: arguments, checkpoints, metrics, and saving the adapter whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from transformers import TrainerCallback

if TYPE_CHECKING:
    import torch
    from peft import PeftModel

    from prefkit.models.load import ModelSpec


def ranks() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def quiet_datasets() -> None:
    """No progress bars of libraries: the live view is prefkit's own."""
    import datasets
    from transformers.utils import logging

    datasets.disable_progress_bars()
    logging.disable_progress_bar()


def training_arguments(folder: Path, spec: ModelSpec, settings: dict, seed: int, dtype: torch.dtype) -> dict:
    """Arguments of transformers' Trainer that both stages share. Adapters train in float32 under autocast to `dtype`."""
    import torch

    cpu = not torch.cuda.is_available()
    return {
        "output_dir": str(folder / "checkpoints"),
        "learning_rate": settings["learning_rate"],
        "lr_scheduler_type": settings["scheduler"],
        "warmup_steps": settings["warmup_ratio"],
        "max_grad_norm": 1.0,
        "weight_decay": 0.0,
        "bf16": dtype == torch.bfloat16,
        "use_cpu": cpu,
        "ddp_backend": "gloo" if cpu and ranks() > 1 else None,
        "ddp_find_unused_parameters": False,
        "gradient_checkpointing": False,
        "disable_dropout": True,
        "seed": seed,
        "data_seed": seed,
        "logging_steps": 1,
        "logging_first_step": True,
        "save_strategy": "steps",
        "save_steps": settings["save_every"],
        "save_total_limit": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "dataloader_num_workers": 0,
        "dataloader_pin_memory": False,
        "model_init_kwargs": None,
    }


def save_adapter(trainer, target: Path) -> None:
    """Save the adapter `default` under `target`, through a temporary name, by the first rank alone."""
    if trainer.is_world_process_zero():
        write_adapter(trainer.accelerator.unwrap_model(trainer.model), target)
        shutil.rmtree(trainer.args.output_dir, ignore_errors=True)  # checkpoints hold optimiser states that nothing reads again
    trainer.accelerator.wait_for_everyone()


def write_adapter(model: PeftModel, target: Path) -> None:
    """Write the adapter `default` of `model` as the folder `target`, through a temporary name."""
    temporary = target.with_name(f".{target.name}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    model.save_pretrained(str(temporary), selected_adapters=["default"])
    temporary.rename(target)


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


class CandidateCallback(TrainerCallback):
    """Keeps the adapter every `every` steps, and at the last one, as `folder`/step-N: candidates for selection on validation."""

    def __init__(self, folder: Path, every: int):
        self.folder, self.every = folder, every

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if state.is_world_process_zero and (state.global_step % self.every == 0 or state.global_step == state.max_steps):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_adapter(getattr(model, "module", model), self.folder / f"step-{state.global_step}")
