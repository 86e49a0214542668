"""Shared prefixes give the log-probabilities and gradients of the padded batch, whatever the model, the padding and the trees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prefkit.models import attention
from prefkit.train import shared_prefix
from prefkit.train.shared_prefix import can_share, share_prefixes

if TYPE_CHECKING:
    import torch
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TOLERANCE = 1e-5
SCHEMA = list(range(10, 30))
# Two questions on one schema with two answers each, a question on its own, and a row that is the beginning of another.
ROWS = [
    [*SCHEMA, 40, 41, 50, 51, 2],
    [*SCHEMA, 40, 41, 50, 52, 53, 54, 2],
    [*SCHEMA, 42, 60, 2],
    [*SCHEMA, 42, 61, 62, 2],
    [70, 71, 72, 73, 2],
    [*SCHEMA, 42],
]
KINDS = ("llama", "qwen2")
SHAPE: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}

Model = Callable[[str, str], "PreTrainedModel"]
Lora = Callable[["PreTrainedModel"], "PeftModel"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("max_nodes", [1024, 24], ids=["one tree a schema", "many trees"])
def test_log_probs_and_gradients_are_those_of_the_padded_batch(
    kind: str, side: str, max_nodes: int, random_model: Model, with_lora: Lora
) -> None:
    plain = with_lora(random_model(kind, "sdpa")).train()
    shared = with_lora(random_model(kind, attention.register())).train()
    base: Any = shared.get_base_model()
    assert share_prefixes(base, max_nodes) is None
    expected, expected_gradients = log_probs_and_gradients(plain, side)
    found, gradients = log_probs_and_gradients(shared, side)
    for one, two in zip(expected, found, strict=True):
        assert ((one - two).abs() / one.abs().clamp(min=1)).max() < TOLERANCE
    assert gradients.keys() == expected_gradients.keys()
    assert len(gradients) == 2 * 2 * 7  # A and B, two layers, seven linear layers each
    for name, value in expected_gradients.items():
        assert value.norm() > 0
        assert (gradients[name] - value).norm() / value.norm() < TOLERANCE, name


@pytest.mark.parametrize("kind", KINDS)
def test_dpo_loss_and_gradients_are_those_of_stock_trl(
    kind: str, random_model: Model, with_lora: Lora, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    stock = dpo_loss_and_gradients(with_lora(random_model(kind, "sdpa")), tokenizer, tmp_path, shared=False)
    own = dpo_loss_and_gradients(with_lora(random_model(kind, attention.register())), tokenizer, tmp_path, shared=True)
    assert abs(own[0] - stock[0]) < TOLERANCE
    for name, value in stock[1].items():
        assert (own[1][name] - value).norm() / value.norm() < TOLERANCE, name


def test_the_batch_runs_as_trees_and_other_calls_as_they_were(random_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    model = random_model("llama", attention.register())
    widths: list[tuple[int, ...]] = []
    forward = model.base_model.forward

    def counted(*args: Any, **kwargs: Any) -> Any:
        widths.append(tuple(kwargs["input_ids"].shape))
        assert ("tree" in kwargs) == (len(kwargs["input_ids"]) == 1 and kwargs.get("position_ids") is not None)
        return forward(*args, **kwargs)

    model.base_model.forward = counted  # type: ignore[method-assign]
    share_prefixes(model)
    ids, mask = padded("right")
    model(input_ids=ids, attention_mask=mask)
    assert sorted(widths) == [(1, 5), (1, 20 + 2 + 1 + 2 + 4 + 1 + 2 + 3)]
    widths.clear()
    model(input_ids=ids[:1], attention_mask=mask[:1])  # one row has nothing to share
    model(input_ids=ids)  # without a mask nobody knows what is padding
    model(input_ids=ids, attention_mask=mask, use_cache=True)
    model(input_ids=ids, attention_mask=mask, position_ids=torch.arange(ids.shape[1])[None])
    assert widths == [(1, 27), (6, 27), (6, 27), (6, 27)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0}, "sliding"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layers of the kind sliding_attention"),
        ({"use_sliding_window": False, "sliding_window": 8}, None),
    ],
    ids=["full", "sliding window", "some layers slide", "switched off"],
)
def test_windows_cannot_be_shared(change: dict[str, Any], reason: str | None) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    model = Qwen2ForCausalLM(Qwen2Config(**{**SHAPE, "num_hidden_layers": 2, **change}))
    found = can_share(model)
    assert reason in found if reason and found else found == reason
    forward = model.base_model.forward
    assert share_prefixes(model) == found
    assert (model.base_model.forward == forward) == bool(reason), "a model that cannot share is left as it is"


def test_mistral_slides_and_linear_attention_and_flash_attention_cannot_share(random_model: Model) -> None:
    from transformers import MistralConfig, MistralForCausalLM

    assert can_share(MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=8))) == "the model attends through a sliding window"
    assert can_share(MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=None))) is None
    model = random_model("llama", "sdpa")
    model.config.layer_types = ["linear_attention", "full_attention"]
    assert can_share(model) == "the model has layers of the kind linear_attention"
    model.config.layer_types = None
    model.config._attn_implementation_internal = "flash_attention_2"
    assert can_share(model) == "the attention implementation flash_attention_2 takes no mask of its own"


def padded(side: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask of ROWS."""
    import torch

    width = max(map(len, ROWS))
    ids, mask = torch.zeros(len(ROWS), width, dtype=torch.long), torch.zeros(len(ROWS), width, dtype=torch.long)
    for index, row in enumerate(ROWS):
        place = slice(0, len(row)) if side == "right" else slice(width - len(row), width)
        ids[index, place], mask[index, place] = torch.tensor(row), 1
    return ids, mask


def log_probs_and_gradients(model: PeftModel, side: str) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """The log-probability of each token after the first, by row, and the gradients of a weighted sum of them."""
    import torch

    ids, mask = padded(side)
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits.log_softmax(-1)
    rows = []
    for index, row in enumerate(ROWS):
        start = 0 if side == "right" else ids.shape[1] - len(row)
        rows.append(logits[index, start : start + len(row) - 1].gather(1, torch.tensor(row[1:])[:, None])[:, 0])
    sum((index + 1) * values.sum() for index, values in enumerate(rows)).backward()  # type: ignore[union-attr]
    gradients = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    return [values.detach() for values in rows], gradients


def dpo_loss_and_gradients(
    model: PeftModel, tokenizer: PreTrainedTokenizerBase, folder: Path, shared: bool
) -> tuple[float, dict[str, torch.Tensor]]:
    from trl.trainer.dpo_config import DPOConfig

    from datasets import Dataset
    from prefkit.train.trl_seams import PairTrainer, fit_head_to_processor

    pairs = [(ROWS[0], ROWS[1], 22), (ROWS[2], ROWS[3], 21), (ROWS[3], ROWS[2], 21)]
    rows = [{"prompt_ids": one[:cut], "chosen_ids": one[cut:], "rejected_ids": two[cut:]} for one, two, cut in pairs]
    arguments = DPOConfig(
        str(folder), report_to="none", use_cpu=True, bf16=False, loss_type=["sigmoid", "sft"], loss_weights=[0.15, 1.0],
        gradient_checkpointing=False, remove_unused_columns=False, disable_tqdm=True,
    )  # fmt: skip
    if shared:
        base: Any = model.get_base_model()
        assert shared_prefix.share_prefixes(base) is None
        fit_head_to_processor()
    trainer = PairTrainer(
        model=model, args=arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer, groups=["a"] * 3, block=1
    )
    batch = trainer._prepare_inputs(trainer.data_collator(rows))
    loss = trainer.compute_loss(trainer.model, batch)
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in trainer.model.named_parameters() if parameter.grad is not None}
    return float(loss.detach()), gradients
