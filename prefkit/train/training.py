"""What both trainers share: arguments, checkpoints, metrics, and saving the adapter whole or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from peft import PeftModel
    from transformers import PreTrainedTokenizerBase

    from prefkit.models.load import LoraSpec, ModelSpec


def ranks() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def on_processor() -> bool:
    """Whether training runs without a GPU."""
    import torch

    return not torch.cuda.is_available()


def micro_batch(rows: int, most: int) -> int:
    """The largest micro-batch of at most `most` that divides `rows`: an optimiser step then has all its rows, whatever their number."""
    return next(size for size in range(min(rows, most), 0, -1) if rows % size == 0)


def quiet_datasets() -> None:
    """No progress bars of libraries: the live view is prefkit's own."""
    from transformers.utils import logging

    import datasets

    datasets.disable_progress_bars()
    logging.disable_progress_bar()


def trainable_policy(spec: ModelSpec, adapter: str | None, lora: LoraSpec, seed: int) -> tuple[PeftModel, PreTrainedTokenizerBase, str]:
    """A policy ready for a TRL trainer: base and adapter (a fresh one where `adapter` is None), prefixes shared, LoRA layers fused.

    The third value says whether prefixes are shared: "yes", or the reason why not.
    """
    from prefkit.models import rollout_job
    from prefkit.models.load import load_adapter, load_base, new_adapter
    from prefkit.train.fast_lora import speed_up_lora
    from prefkit.train.shared_prefix import share_prefixes
    from prefkit.train.trl_seams import fit_head_to_processor

    quiet_datasets()
    rollout_job.forget()
    base, tokenizer = load_base(spec)
    unshared = share_prefixes(base)
    fit_head_to_processor()
    policy = load_adapter(base, adapter, trainable=True) if adapter else new_adapter(base, lora, seed)
    speed_up_lora(policy)
    return policy, tokenizer, unshared or "yes"


def training_arguments(folder: Path, spec: ModelSpec, settings: dict, seed: int, dtype: torch.dtype) -> dict:
    """Arguments of transformers' Trainer that both stages share. Adapters train in float32 under autocast to `dtype`."""
    import torch

    cpu = on_processor()
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
