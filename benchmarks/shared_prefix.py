"""One DPO step (loss and gradients of pairs, policy and reference) through TRL: stock, and with each of prefkit's ways to do less.

python benchmarks/shared_prefix.py [--quick] [--json FILE]
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from _timing import arguments, finish, in_turns, questions, quiet

CASES = ("TRL, stock", "completions only", "and shared prefixes", "and fused LoRA products")


def main() -> None:
    parser = arguments(str(__doc__).splitlines()[0], rounds=5)
    parser.add_argument("--pairs", type=int, default=8, help="pairs in one step")
    parser.add_argument("--databases", type=int, default=2, help="databases they are spread over; pairs on one share its schema")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.pairs, given.databases = 1, 2, 1
    quiet()
    import torch

    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as folder:
        rows, length = pairs(given.pairs, given.databases)
        cases = {name: step(rows, level, Path(folder)) for level, name in enumerate(CASES)}
        if not given.quick:
            for case in list(cases.values())[1:]:
                case()  # warm: the stock step is long enough to need none
        figures = in_turns(cases, given.rounds, "pairs")
    settings = {"pairs": given.pairs, "databases": given.databases, "mean tokens of a row": length}
    settings |= {"threads": given.threads, "rounds": given.rounds}
    finish("DPO step", settings, figures, given.json)


def pairs(count: int, databases: int) -> tuple[list[dict[str, Any]], int]:
    """Token ids of pairs, a question's gold over its neighbour's, and the mean length of their rows."""
    from transformers import AutoTokenizer

    from prefkit.models.load import ModelSpec, resolve
    from prefkit.resources import cache_dir

    tokenizer = AutoTokenizer.from_pretrained(resolve(ModelSpec(cache=str(cache_dir()))))
    asked = questions(count + 1, databases)
    rows = []
    for one, neighbour in pairwise(asked):
        prompt = tokenizer.apply_chat_template(one["messages"], add_generation_prompt=True)["input_ids"]
        sides = [tokenizer(text)["input_ids"] + [tokenizer.eos_token_id] for text in (one["gold"], neighbour["gold"])]
        rows.append({"prompt_ids": prompt, "chosen_ids": sides[0], "rejected_ids": sides[1], "database": one["database"]})
    tokens = sum(2 * len(row["prompt_ids"]) + len(row["chosen_ids"]) + len(row["rejected_ids"]) for row in rows)
    return rows, tokens // (2 * len(rows))


def step(rows: list[dict[str, Any]], level: int, folder: Path) -> Callable[[], float]:
    """A step with the first `level` ways to do less, on a model of its own."""
    from trl.trainer import utils
    from trl.trainer.dpo_config import DPOConfig

    from datasets import Dataset
    from prefkit.models.load import LoraSpec, ModelSpec, compute_dtype, load_base, new_adapter
    from prefkit.resources import cache_dir
    from prefkit.train.fast_lora import speed_up_lora
    from prefkit.train.shared_prefix import share_prefixes
    from prefkit.train.training import training_arguments
    from prefkit.train.trl_seams import PairTrainer

    spec = ModelSpec(cache=str(cache_dir()))
    base, tokenizer = load_base(spec)
    if level >= 2:
        share_prefixes(base)
    else:
        base.set_attn_implementation("sdpa")  # what transformers takes by itself
    policy = new_adapter(base, LoraSpec(), seed=0)
    if level >= 3:
        speed_up_lora(policy)
    settings = {"learning_rate": 1e-3, "scheduler": "constant", "warmup_ratio": 0, "save_every": 1000}
    config = DPOConfig(
        **training_arguments(folder, spec, settings, 0, compute_dtype(spec.dtype)),
        per_device_train_batch_size=len(rows), loss_type=["sigmoid", "sft"], loss_weights=[0.15, 1.0], max_length=None,
    )  # fmt: skip
    groups = [row["database"] for row in rows]
    trainer = PairTrainer(
        model=policy, args=config, train_dataset=Dataset.from_list(rows), processing_class=tokenizer, groups=groups, block=1
    )
    batch = trainer._prepare_inputs(trainer.data_collator(rows))
    module: Any = utils

    def once() -> float:
        module._use_triton = (lambda _device: True) if level >= 1 else (lambda _device: False)
        with trainer.compute_loss_context_manager():
            loss = trainer.compute_loss(trainer.model, dict(batch))
        loss.backward()
        trainer.model.zero_grad()
        return len(rows)

    return once


if __name__ == "__main__":
    main()
