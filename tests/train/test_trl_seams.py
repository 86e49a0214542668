"""The seams hold: TRL's private methods have the shapes that prefkit builds on, and what is changed in them changes no result."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    import torch
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_trl_is_the_version_whose_seams_these_are() -> None:
    assert version("trl").startswith("1.16."), "look at every seam again, then move the range in pyproject.toml"


def test_methods_that_are_overridden_have_the_signatures_they_are_overridden_with() -> None:
    from transformers import Trainer
    from trl.trainer.dpo_trainer import DPOTrainer
    from trl.trainer.grpo_trainer import GRPOTrainer
    from trl.trainer.utils import RepeatSampler

    assert parameters(DPOTrainer._prepare_dataset) == ["self", "dataset", "processing_class", "args", "dataset_name"]
    assert DPOTrainer._get_train_sampler is Trainer._get_train_sampler
    assert parameters(Trainer._get_train_sampler) == ["self", "train_dataset"]
    assert parameters(GRPOTrainer._generate_single_turn) == [
        "self", "prompt_ids", "images", "multimodal_fields", "num_generations", "has_tool_images",
    ]  # fmt: skip
    assert parameters(GRPOTrainer._prepare_inputs) == ["self", "generation_batch"]
    assert parameters(GRPOTrainer._get_train_sampler) == ["self", "dataset"]
    assert parameters(RepeatSampler.__init__) == [
        "self", "data_source", "mini_repeat_count", "batch_size", "repeat_count", "shuffle", "seed",
    ]  # fmt: skip


def test_losses_go_through_the_fused_head_and_the_backbone() -> None:
    """`share_prefixes` wraps the backbone; a loss that took another way would run unshared, or score other positions."""
    from trl.trainer import utils
    from trl.trainer.dpo_trainer import DPOTrainer
    from trl.trainer.grpo_trainer import GRPOTrainer

    assert parameters(DPOTrainer._compute_loss) == ["self", "model", "inputs", "return_outputs"]
    assert parameters(DPOTrainer.compute_ref_log_probs) == ["self", "model", "inputs"]
    logps = parameters(GRPOTrainer._get_per_token_logps_and_entropies)
    assert logps[:5] == ["self", "model", "input_ids", "attention_mask", "logits_to_keep"]
    for method in (DPOTrainer._compute_loss, DPOTrainer.compute_ref_log_probs, GRPOTrainer._get_per_token_logps_and_entropies):
        assert "labels=labels, fused_lm_head=True)" in inspect.getsource(method)
    head = inspect.getsource(utils.add_fused_lm_head)
    assert 'backbone_attr = "base_model"' in head
    assert "getattr(self, backbone_attr)(*args, **kwargs)" in head
    assert "compact = _use_triton(hidden_states.device)" in head
    assert "                _CHUNKED_LOGPROB_CHUNK_SIZE,\n" in head
    assert parameters(vars(utils)["_use_triton"]) == ["device"]


def test_generation_hands_prompts_over_repeated_and_takes_ids_and_logprobs() -> None:
    from trl.trainer import grpo_trainer, utils
    from trl.trainer.grpo_trainer import GRPOTrainer

    generate = inspect.getsource(GRPOTrainer._generate)
    assert "completion_ids, logprobs = self._generate_single_turn(" in generate
    prepare = inspect.getsource(GRPOTrainer._prepare_inputs)
    assert "generation_batch = shuffle_sequence_dict(generation_batch)" in prepare
    assert parameters(vars(grpo_trainer)["shuffle_sequence_dict"]) == ["seq_dict"]
    assert parameters(utils.use_adapter) == ["model", "adapter_name"]
    setup = inspect.getsource(GRPOTrainer.__init__)
    for attribute in ("self.num_generations =", "self._buffered_inputs =", "self._step ="):
        assert attribute in setup
    assert '"ref"' in setup, "the start becomes the reference as the adapter named ref"


def test_an_answer_without_reward_is_left_out_of_its_group() -> None:
    from trl.trainer.grpo_trainer import GRPOTrainer

    assert "unscorable_mask = torch.isnan(rewards_per_func).all(dim=1)" in inspect.getsource(GRPOTrainer._generate_and_score_completions)


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
@pytest.mark.parametrize("loss", [(["sigmoid", "sft"], [0.15, 1.0]), (["sft"], [1.0])], ids=["contrast", "nll alone"])
def test_fitting_the_head_to_the_processor_changes_no_loss_and_no_gradient(
    kind: str,
    loss: tuple[list[str], list[float]],
    random_model: Callable[[str, str], PreTrainedModel],
    with_lora: Callable[[PreTrainedModel], PeftModel],
    tokenizer: PreTrainedTokenizerBase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from trl.kernels import chunked_logprob
    from trl.trainer import utils

    from prefkit.train.trl_seams import fit_head_to_processor

    monkeypatch.setattr(utils, "_use_triton", lambda _device: False)
    batch, trainer = pair_trainer(with_lora(random_model(kind, "sdpa")), loss, tokenizer, tmp_path)
    stock, stock_gradients, stock_scored = loss_and_gradients(trainer, batch, monkeypatch)
    fit_head_to_processor()
    own, gradients, scored = loss_and_gradients(trainer, batch, monkeypatch)
    assert chunked_logprob._use_triton is not vars(utils)["_use_triton"], "kernels still ask whether there is Triton"
    assert abs(own - stock) < 1e-6
    for name, value in stock_gradients.items():
        assert (gradients[name] - value).norm() <= 1e-6 * max(float(value.norm()), 1), name
    width = batch["input_ids"].shape[1] - 1
    assert stock_scored == 4 * width
    assert scored == int(batch["completion_mask"].sum())


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 6), st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_blocks_have_every_row_once_and_one_group_each(numbers: list[int], block: int, seed: int) -> None:
    from prefkit.train.trl_seams import BlockSampler

    groups = [f"database {number}" for number in numbers]
    sampler = BlockSampler(groups, block, seed)
    order = list(sampler)
    assert len(sampler) == len(groups)
    assert sorted(order) == list(range(len(groups)))
    full = sum(count - count % block for count in Counter(groups).values())
    assert full % block == 0
    for start in range(0, full, block):
        assert len({groups[index] for index in order[start : start + block]}) == 1
    rest = [groups[index] for index in order[full:]]
    assert [group for number, group in enumerate(rest) if not number or rest[number - 1] != group] == list(dict.fromkeys(rest))
    assert list(BlockSampler(groups, block, seed)) == order


def test_blocks_come_in_another_order_each_epoch_and_with_each_seed() -> None:
    from prefkit.train.trl_seams import BlockSampler

    groups = ["a"] * 20 + ["b"] * 20

    def order(seed: int, epoch: int) -> tuple[int, ...]:
        sampler = BlockSampler(groups, 4, seed)
        sampler.set_epoch(epoch)
        return tuple(sampler)

    assert len({order(seed, epoch) for seed in (0, 1) for epoch in range(3)}) == 6
    assert order(1, 2) == order(1, 2)


@pytest.mark.parametrize("processes", [1, 2])
def test_the_epoch_reaches_the_sampler_through_accelerate(processes: int) -> None:
    from accelerate.data_loader import prepare_data_loader
    from torch.utils.data import DataLoader

    from prefkit.train.trl_seams import BlockSampler

    groups = ["a"] * 8 + ["b"] * 8
    seen = []
    for rank in range(processes):
        loader = DataLoader(list(range(16)), batch_size=4, sampler=BlockSampler(groups, 4, 0))  # type: ignore[arg-type]
        prepared: Any = prepare_data_loader(loader, num_processes=processes, process_index=rank, put_on_device=False)
        epochs = []
        for epoch in (0, 1):
            prepared.set_epoch(epoch)
            epochs.append([batch.tolist() for batch in prepared])
        assert epochs[0] != epochs[1]
        assert all(len({groups[index] for index in batch}) == 1 for batches in epochs for batch in batches)
        seen.append(epochs)
    for epoch in (0, 1):
        assert sorted(index for epochs in seen for batch in epochs[epoch] for index in batch) == list(range(16))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_prompts_are_drawn_in_the_order_of_blocks_as_often_as_trl_repeats_them(numbers: list[int], block: int, blocks: int, k: int) -> None:
    from trl.trainer.utils import RepeatSampler

    from prefkit.train.trl_seams import BlockSampler, PromptSampler

    groups = [f"database {number}" for number in numbers]
    stock = RepeatSampler(groups, mini_repeat_count=k, batch_size=block * blocks, repeat_count=2, seed=3)
    sampler = PromptSampler(stock, groups, block)
    order = list(BlockSampler(groups, block, 3))
    drawn = list(sampler)
    assert len(drawn) == len(stock) == len(sampler)
    steps = [order[start : start + block * blocks] for start in range(0, len(order), block * blocks)]
    assert drawn == [index for step in steps if len(step) == block * blocks for _ in range(2) for index in step for _ in range(k)]


def test_prompts_come_in_an_order_that_seed_and_epoch_decide() -> None:
    """TRL's own sampler begins a resumed run with the order of the first epoch."""
    from trl.trainer.utils import RepeatSampler

    from prefkit.train.trl_seams import PromptSampler

    groups = ["a", "b"] * 6

    def order(seed: int, epoch: int) -> tuple[int, ...]:
        sampler = PromptSampler(RepeatSampler(groups, mini_repeat_count=2, batch_size=2, seed=seed), groups, 2)
        sampler.set_epoch(epoch)
        return tuple(sampler)

    assert len({order(seed, epoch) for seed in (0, 1) for epoch in range(3)}) == 6
    assert order(1, 2) == order(1, 2)


def test_trl_has_its_own_shuffle_back_afterwards() -> None:
    from trl.trainer import grpo_trainer

    from prefkit.train.trl_seams import _in_the_order_drawn

    stock = vars(grpo_trainer)["shuffle_sequence_dict"]
    with pytest.raises(RuntimeError, match="stopped"), _in_the_order_drawn():
        assert vars(grpo_trainer)["shuffle_sequence_dict"] is not stock
        raise RuntimeError("stopped")
    assert vars(grpo_trainer)["shuffle_sequence_dict"] is stock


def pair_trainer(
    model: PeftModel, loss: tuple[list[str], list[float]], tokenizer: PreTrainedTokenizerBase, folder: Path
) -> tuple[dict, Any]:
    """A trainer over two pairs of unequal lengths, and their batch."""
    from trl.trainer.dpo_config import DPOConfig

    from datasets import Dataset
    from prefkit.train.trl_seams import PairTrainer

    rows = [
        {"prompt_ids": [10, 11, 12, 13, 14, 15], "chosen_ids": [20, 21, 2], "rejected_ids": [22, 2]},
        {"prompt_ids": [10, 11, 12], "chosen_ids": [30, 2], "rejected_ids": [31, 32, 33, 34, 2]},
    ]
    arguments = DPOConfig(
        str(folder), report_to="none", use_cpu=True, bf16=False, loss_type=loss[0], loss_weights=loss[1], gradient_checkpointing=False,
        remove_unused_columns=False, disable_tqdm=True,
    )  # fmt: skip
    trainer = PairTrainer(
        model=model, args=arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer, groups=["a", "a"], block=1
    )
    assert trainer.train_dataset[0] == rows[0], "rows of token ids are taken as they are"
    return trainer._prepare_inputs(trainer.data_collator(rows)), trainer


def loss_and_gradients(trainer: Any, batch: dict, monkeypatch: pytest.MonkeyPatch) -> tuple[float, dict[str, torch.Tensor], int]:
    """The loss of the batch, its gradients, and how many positions the head scored for the policy."""
    from trl.trainer import utils

    scored = []
    kernel = vars(utils)["_ChunkedLogProbFunction"]

    class Counting:
        @staticmethod
        def apply(hidden: torch.Tensor, *rest: Any) -> Any:
            scored.append(len(hidden))
            return kernel.apply(hidden, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(utils, "_ChunkedLogProbFunction", Counting)
        trainer.model.zero_grad()
        loss = trainer.compute_loss(trainer.model, dict(batch))
        loss.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in trainer.model.named_parameters() if parameter.grad is not None}
    return float(loss.detach()), gradients, scored[0]
