"""Warm start: DPO with an NLL term on verified pairs, through TRL's DPOTrainer and a LoRA.

The loss of a row is nll · NLL(chosen) + contrast · DPO(chosen over rejected; beta), TRL's `loss_type=["sigmoid", "sft"]` with weights
(DPO arXiv 2305.18290, the NLL term arXiv 2404.19733). From a weak base the NLL does most of the work and DPO alone collapses; the
reference of the contrast is the policy at the start of the round.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from prefkit.errors import DataError
from prefkit.models.load import LoraSpec, ModelSpec, compute_dtype
from prefkit.train import guard
from prefkit.train.checkpoints import latest_checkpoint
from prefkit.train.training import micro_batch, on_processor, ranks, save_adapter, trainable_policy, training_arguments

if TYPE_CHECKING:
    from datasets import Dataset

TOKENS = ("prompt_ids", "chosen_ids", "rejected_ids")
MICRO_BATCH = 8  # pairs in one forward; with shared prefixes about 1,000 nodes


def run(
    *, model: dict, lora: dict, adapter: str | None, pairs: str, output: str, settings: dict, seed: int, report: Callable[[dict], None]
) -> dict:
    """Train one round and save its adapter into `output`/adapter.

    Args: adapter: the adapter to go on from, or None for a fresh one; pairs: Parquet with prompt_ids, chosen_ids, rejected_ids (null: the
    row teaches by likelihood alone), database;
    settings: epochs, learning_rate, nll, contrast, beta, batch, warmup_ratio, scheduler; report: takes {"progress": step, "total": steps,
    "metrics": …}.
    Returns the stage's figures: rows, steps, tokens, loss_first, loss_last, changed_share, upcast, shared_prefix.
    """
    from trl.trainer.dpo_config import DPOConfig

    from prefkit.train.callbacks import MemoryCallback, MetricsCallback
    from prefkit.train.trl_seams import PairTrainer

    spec, folder = ModelSpec(**model), Path(output)
    policy, tokenizer, shared = trainable_policy(spec, adapter, LoraSpec(**lora), seed)
    rows = read_pairs(pairs, folder / "rows", likelihood=settings["nll"] > 0)
    per_rank = max(1, settings["batch"] // ranks())
    micro = micro_batch(per_rank, MICRO_BATCH)
    arguments = DPOConfig(
        **training_arguments(folder, spec, settings, seed, compute_dtype(spec.dtype)),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=per_rank // micro,
        num_train_epochs=settings["epochs"],
        loss_type=["sigmoid", "sft"] if settings["contrast"] else ["sft"],
        loss_weights=[settings["contrast"], settings["nll"]] if settings["contrast"] else [settings["nll"]],
        beta=settings["beta"],
        max_length=None,
        precompute_ref_log_probs=settings["epochs"] > 1,
        precompute_ref_batch_size=micro,
    )
    metrics, start = MetricsCallback(report), guard.Snapshot(policy)
    trainer = PairTrainer(
        model=policy,
        args=arguments,
        train_dataset=rows,
        processing_class=tokenizer,
        callbacks=[metrics, MemoryCallback(every=2)],
        groups=rows["database"],
        block=micro,
    )
    upcast = guard.before_training(trainer.model, adapter, start)
    trainer.train(resume_from_checkpoint=latest_checkpoint(folder))
    save_adapter(trainer, folder / "adapter")
    if trainer.is_world_process_zero():
        shutil.rmtree(folder / "rows", ignore_errors=True)
    return {
        "rows": len(rows),
        "steps": trainer.state.global_step,
        "tokens": sum(map(_tokens, rows.to_list())) * settings["epochs"],
        "loss_first": metrics.first("loss"),
        "loss_last": metrics.last("loss"),
        "changed_share": start.changed_share(trainer.model),
        "upcast": upcast,
        "shared_prefix": shared,
    }


def read_pairs(path: str, folder: Path, likelihood: bool = True) -> Dataset:
    """The token columns of a pairs file as a dataset in a file that all ranks share (TRL caches reference log-probabilities beside it).

    A row without a rejected answer gets the chosen one there as well: the contrast of equal sides has no gradient, and a tree of prefixes
    runs both as one. Without `likelihood` such rows teach nothing and are left out. Raises DataError where no row is left.
    """
    import pyarrow.parquet as pq
    from accelerate import PartialState

    from datasets import Dataset

    state = PartialState(cpu=on_processor())
    if state.is_main_process:
        rows = pq.read_table(path, columns=[*TOKENS, "database"]).to_pylist()
        kept = [{**row, "rejected_ids": row["rejected_ids"] or row["chosen_ids"]} for row in rows if likelihood or row["rejected_ids"]]
        if not kept:
            raise DataError(f"{path} holds no pair with two sides, and with nll 0 nothing else teaches: give nll a weight.")
        shutil.rmtree(folder, ignore_errors=True)
        Dataset.from_list(kept).save_to_disk(str(folder))
    state.wait_for_everyone()
    return Dataset.load_from_disk(str(folder))


def _tokens(row: dict) -> int:
    """Tokens of a row; one side where both are the same."""
    sides = [row["chosen_ids"]] + [row["rejected_ids"]] * (row["rejected_ids"] != row["chosen_ids"])
    return len(row["prompt_ids"]) + sum(map(len, sides))
