"""Everything that touches TRL's private methods stands here, each seam with the reason why; a test holds their signatures.

TRL is pinned to 1.16: its losses, samplers of prompts and metrics stay its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import Sampler
from trl.trainer import grpo_trainer
from trl.trainer import utils as trl_utils
from trl.trainer.dpo_trainer import DPOTrainer
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import RepeatSampler

from prefkit.train.training import on_processor


def fit_head_to_processor() -> None:
    """Make TRL's fused head score the positions with a label only, on every device, and on a processor in pieces that its cache holds.

    It does the first on devices with Triton; elsewhere it scores each position of the prompt too, against compilers that dislike changing
    shapes. Nothing is compiled here, and the head over 49,152 tokens is most of a short row's cost: a step took 2.2 times as long without
    this. Its pieces of 32,768 tokens are made for GPUs: on a processor every operation on one goes through main memory.
    """
    module: Any = trl_utils
    module._use_triton = lambda _device: True
    if on_processor():
        module._CHUNKED_LOGPROB_CHUNK_SIZE = 1024


class BlockSampler(Sampler[int]):
    """Rows in shuffled blocks of one group (a database), so that the rows of a batch share their schema; a new order each epoch."""

    def __init__(self, groups: list[str], block: int, seed: int):
        self.groups, self.block, self.seed, self.epoch = groups, block, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed * 1000 + self.epoch)
        by_group: dict[str, list[int]] = {}
        for index in torch.randperm(len(self.groups), generator=generator).tolist():
            by_group.setdefault(self.groups[index], []).append(index)
        full, rest = [], []
        for rows in by_group.values():
            cut = len(rows) - len(rows) % self.block
            full += [rows[start : start + self.block] for start in range(0, cut, self.block)]
            rest += rows[cut:]
        blocks = [full[index] for index in torch.randperm(len(full), generator=generator).tolist()]
        # What does not fill a block comes last, still sorted by group: no row is left out.
        return iter([index for block in blocks for index in block] + rest)


class _EpochForSampler:
    """Tells the sampler which epoch it draws, also where training goes on in the middle of one.

    There accelerate wraps the batches of each rank once more, to skip the first ones, and its `set_epoch` does not get through: the resumed
    epoch had the order of the first. So it is told before that.
    """

    def _run_epoch(self, *arguments, epoch: int, train_dataloader: Any, **named):
        train_dataloader.set_epoch(epoch)
        return super()._run_epoch(*arguments, epoch=epoch, train_dataloader=train_dataloader, **named)  # type: ignore[misc]


class _FirstStepTeaches:
    """Moves the course of the learning rate on by one step. transformers' begins its warm-up at 0: the first batch would teach nothing, and
    a round of one step nothing at all, unseen."""

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None):
        scheduler = super().create_scheduler(num_training_steps + 1, optimizer)  # type: ignore[misc]
        scheduler.lr_lambdas = [lambda step, course=course: course(step + 1) for course in scheduler.lr_lambdas]
        for group, base, course in zip(scheduler.optimizer.param_groups, scheduler.base_lrs, scheduler.lr_lambdas, strict=True):
            group["lr"] = base * course(0)
        scheduler._last_lr = [group["lr"] for group in scheduler.optimizer.param_groups]
        return scheduler


class PairTrainer(_EpochForSampler, _FirstStepTeaches, DPOTrainer):
    """DPOTrainer over rows that are tokenised already (prompt_ids, chosen_ids, rejected_ids), drawn in blocks of one group.

    TRL tokenises conversations itself, prompt and prompt + answer apart, and then looks for where they part; with token ids of our own the
    prompt is exactly the one that was sampled from (trl#5213).
    """

    model: torch.nn.Module  # given to the constructor, so never None

    def __init__(self, *args, groups: list[str], block: int, **kwargs):
        self._groups, self._block = groups, block
        super().__init__(*args, **kwargs)

    def _prepare_dataset(self, dataset, *_args):
        return dataset

    def _compute_loss(self, model, inputs, return_outputs):
        """TRL's loss; its metrics of preference are put right for rows with two equal sides, which prefer nothing."""
        loss = super()._compute_loss(model, inputs, return_outputs)
        differ: Any = self.accelerator.gather(_sides_differ(inputs).float())
        share = differ.mean().item()
        metrics = self._metrics["train" if self.model.training else "eval"]
        for name in ("rewards/chosen", "rewards/rejected"):  # without a reference for equal sides these say nothing
            metrics.pop(name, None)
        for name in ("rewards/accuracies", "rewards/margins"):
            value = metrics[name].pop()
            if share:
                metrics[name].append(value / share)
            elif not metrics[name]:
                del metrics[name]
        return loss

    def compute_ref_log_probs(self, model, inputs):
        """As TRL does, but only for rows whose sides differ: of equal ones the reference cancels out, and they get 0."""
        differ = _sides_differ(inputs)
        logps = torch.zeros(2, len(differ), device=differ.device)
        if differ.any():
            both = differ.repeat(2)
            found = super().compute_ref_log_probs(model, {name: value[both] for name, value in inputs.items()})
            logps[:, differ] = torch.stack(found).float()
        return logps[0], logps[1]

    def _get_train_sampler(self, *_args) -> Sampler[int]:
        return BlockSampler(self._groups, self._block, self.args.seed)


def _sides_differ(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Which rows of a DPO batch, chosen sides first, have two different sides, (B,) boolean."""
    chosen, rejected = inputs["input_ids"].chunk(2)
    return (chosen != rejected).any(1)


class PromptSampler(RepeatSampler):
    """TRL's sampler of prompts, drawn in blocks of one group, in an order that seed and epoch alone decide: a resumed run goes on with the
    prompts of an undisturbed one. TRL's own begins again with the order of its first epoch."""

    def __init__(self, stock: RepeatSampler, groups: list[str], block: int):
        super().__init__(stock.data_source, stock.mini_repeat_count, stock.batch_size, stock.repeat_count, shuffle=False)
        self._order = BlockSampler(groups, block, stock.seed or 0)

    def set_epoch(self, epoch: int) -> None:
        self._order.set_epoch(epoch)

    def __iter__(self) -> Iterator[int]:
        order = list(self._order)
        return (order[index] for index in super().__iter__())


class GroupTrainer(_EpochForSampler, _FirstStepTeaches, GRPOTrainer):
    """GRPOTrainer that samples with `sampler` and keeps what shares computation in one micro-batch: the answers of a prompt, and `block`
    prompts of one group (a database).

    `negatives` weighs the answers below their group's mean. What is pushed away from goes anywhere; what is pulled towards is right. From a
    small model with few steps less of the first leaves more of what it knew (asymmetric REINFORCE, arXiv 2506.20520).
    """

    model: torch.nn.Module  # given to the constructor, so never None

    def __init__(
        self,
        *args,
        sampler: Callable[[list[list[int]], int], tuple[list[list[int]], list[list[float]]]],
        groups: list[str],
        block: int,
        negatives: float = 1.0,
        **kwargs,
    ):
        self._sampler, self._groups, self._block, self._negatives = sampler, groups, block, negatives
        super().__init__(*args, **kwargs)

    def _get_train_sampler(self, dataset=None) -> Sampler[int]:
        stock: Any = super()._get_train_sampler(dataset)
        return PromptSampler(stock, self._groups, self._block)

    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, num_generations, has_tool_images=False):
        return self._sampler(prompt_ids, num_generations)

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        advantages = batch["advantages"]
        batch["advantages"] = torch.where(advantages < 0, advantages * self._negatives, advantages)
        return batch

    def _prepare_inputs(self, generation_batch):
        with _in_the_order_drawn():
            return super()._prepare_inputs(generation_batch)


@contextmanager
def _in_the_order_drawn() -> Iterator[None]:
    """TRL shuffles single answers between micro-batches, which then share nothing. All of them belong to one optimiser step, so their order
    means nothing else."""
    module: Any = grpo_trainer
    original = module.shuffle_sequence_dict
    module.shuffle_sequence_dict = lambda batch: batch
    try:
        yield
    finally:
        module.shuffle_sequence_dict = original
