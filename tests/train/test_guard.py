"""The five silent failures: each is shown without its guard where a CPU can show it, and is caught or mended with it.

The first one's gradients are in tests/models/test_load.py, beside the loader that keeps them right.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prefkit.errors import GuardError
from prefkit.models.load import ModelSpec, keep_nf4_unpacked, load_adapter, load_base
from prefkit.train import guard

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

Lora = Callable[["PreTrainedModel"], "PeftModel"]


# 1. NF4 on the CPU


def test_1_nf4_layers_that_would_be_repacked_are_refused() -> None:
    import torch

    packed: Any = torch.nn.Linear(2, 2)
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), packed)
    packed.support_avx512bf16_for_cpu = True  # what bitsandbytes sets on processors with AVX512-BF16
    with pytest.raises(GuardError, match=r"1 NF4 layers \(first: 1\) would be repacked .*: load the model through prefkit"):
        guard.check_nf4_trains(model)
    assert keep_nf4_unpacked(model) == 1
    guard.check_nf4_trains(model)


def test_1_the_loader_leaves_no_such_layer(tiny_spec: dict[str, str]) -> None:
    model, _ = load_base(ModelSpec(**{**tiny_spec, "quantization": "nf4"}))
    assert any(hasattr(module, "support_avx512bf16_for_cpu") for module in model.modules())
    guard.check_nf4_trains(model)


# 2. bfloat16 adapters


def test_2_small_updates_round_away_in_bfloat16_and_do_not_after_the_upcast() -> None:
    assert share_of_a_small_update(upcast=False) < 0.1
    assert share_of_a_small_update(upcast=True) > 0.95


def share_of_a_small_update(upcast: bool) -> float:
    """What three AdamW steps of 1e-6 change in weights of about 0.1 that TRL has cast to bfloat16."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64, bias=False)
    model.weight.data = torch.randn(64, 64) * 0.1
    start = guard.Snapshot(model)
    exact = model.weight.detach().clone()
    model.weight.data = model.weight.data.bfloat16()  # TRL's constructor
    if upcast:
        assert guard.upcast_trainable(model, start) == 1
        assert torch.equal(model.weight, exact), "the cast's rounding is undone as well"
        assert guard.upcast_trainable(model, start) == 0
    before = guard.Snapshot(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0)
    for step in range(3):
        torch.manual_seed(step)
        model.weight.grad = torch.randn_like(model.weight)
        optimizer.step()
    return before.changed_share(model)


def test_2_the_share_counts_elements_of_trainable_parameters() -> None:
    import torch

    trained, frozen = torch.nn.Linear(3, 1), torch.nn.Linear(2, 2).requires_grad_(False)
    model = torch.nn.Sequential(trained, frozen)
    before = guard.Snapshot(model)
    assert before.changed_share(model) == 0
    with torch.no_grad():
        trained.weight[0, 1] += 1e-7
        trained.weight[0, 2] += 1
        frozen.weight += 1
    assert before.changed_share(model) == 2 / 4


# 3. The wrong adapter, or none


def test_3_an_adapter_that_does_not_train_is_refused(tiny_spec: dict[str, str], start_adapter: Path) -> None:
    frozen = load_adapter(load_base(ModelSpec(**tiny_spec))[0], start_adapter, trainable=False)
    with pytest.raises(GuardError, match="nothing would be trained: no parameter requires a gradient"):
        guard.before_training(frozen, start_adapter, guard.Snapshot(frozen))
    trainable = load_adapter(load_base(ModelSpec(**tiny_spec))[0], start_adapter, trainable=True)
    assert guard.check_trainable(trainable) == sum(value.numel() for value in trainable.parameters() if value.requires_grad) > 0


def test_3_only_the_adapter_that_was_named_is_a_start(tiny_spec: dict[str, str], start_adapter: Path, with_lora: Lora) -> None:
    import torch

    policy = load_adapter(load_base(ModelSpec(**tiny_spec))[0], start_adapter, trainable=True)
    guard.check_start(policy, start_adapter)
    name, value = next((name, value) for name, value in policy.named_parameters() if value.requires_grad)
    with torch.no_grad():
        value[0, 0] += 1e-6
    with pytest.raises(GuardError, match=r"the policy does not start from .*start: .*lora.* differs"):
        guard.check_start(policy, start_adapter)
    with torch.no_grad():
        value[0, 0] = load_adapter(load_base(ModelSpec(**tiny_spec))[0], start_adapter, trainable=True).get_parameter(name)[0, 0]
    guard.check_start(policy, start_adapter)


def test_3_the_ways_that_lose_the_first_stage_are_seen(tiny_spec: dict[str, str], start_adapter: Path) -> None:
    """An adapter folder opened as a model and given a new LoRA is the base model again; so is a fresh LoRA on the base."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    fresh = get_peft_model(load_base(ModelSpec(**tiny_spec))[0], config)
    with pytest.raises(GuardError, match="the policy does not start from"):
        guard.check_start(fresh, start_adapter)
    opened = AutoModelForCausalLM.from_pretrained(start_adapter)
    with pytest.raises(GuardError):
        guard.check_start(get_peft_model(opened, config), start_adapter)
    smaller = get_peft_model(load_base(ModelSpec(**tiny_spec))[0], LoraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    with pytest.raises(GuardError, match=r"the policy has 4 adapter weights, .* has 28: it is not that adapter"):
        guard.check_start(smaller, start_adapter)


@pytest.mark.parametrize("difference", [0.01, float("nan"), float("inf")])
def test_3_a_reference_that_is_not_the_start_is_refused(difference: float) -> None:
    with pytest.raises(GuardError, match="the reference is not the start"):
        guard.check_reference(difference)
    guard.check_reference(0.0)
    guard.check_reference(5e-4)


# 4. vLLM over a 4-bit base


def test_4_vllm_over_a_4_bit_base_is_refused() -> None:
    with pytest.raises(GuardError, match=r"vLLM cannot sample for a trainer with a 4-bit base.*model.quantization=none"):
        guard.refuse_vllm_on_4bit("nf4", use_vllm=True)
    for quantization, use_vllm in (("nf4", False), ("none", True), ("int8", True)):
        guard.refuse_vllm_on_4bit(quantization, use_vllm)


def test_4_merging_into_nf4_and_out_again_changes_the_base(tiny_spec: dict[str, str], start_adapter: Path) -> None:
    """What the guard is for: the base is another one after a single cycle, and drifts on."""
    import torch

    policy = load_adapter(load_base(ModelSpec(**{**tiny_spec, "quantization": "nf4"}))[0], start_adapter, trainable=False)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad(), policy.disable_adapter():
        before = policy(ids).logits
    drift = []
    for _ in range(3):
        policy.merge_adapter()
        policy.unmerge_adapter()
        with torch.no_grad(), policy.disable_adapter():
            drift.append(float((policy(ids).logits - before).norm() / before.norm()))
    assert drift[0] > 0.01
    assert drift[-1] > drift[0]


# 5. Dropout


def test_5_live_dropout_is_refused(tiny_spec: dict[str, str]) -> None:
    from peft import LoraConfig, get_peft_model

    def adapter(dropout: float) -> Any:
        config = LoraConfig(r=4, lora_dropout=dropout, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
        return get_peft_model(load_base(ModelSpec(**tiny_spec))[0], config)

    with pytest.raises(GuardError, match=r"dropout is on in .*lora_dropout.* and 3 more layers: set lora_dropout to 0"):
        guard.before_training(live := adapter(0.05), None, guard.Snapshot(live))
    guard.check_no_dropout(adapter(0.0))


def test_5_with_dropout_the_policy_is_not_its_own_reference(tiny_spec: dict[str, str], start_adapter: Path) -> None:
    """What the guard is for: in training mode the start differs from itself, so the KL to it would not begin at 0."""
    import torch
    from peft import PeftConfig, PeftModel

    ids = torch.tensor([[5, 6, 7, 8, 9, 10]])
    differences = {}
    for dropout in (0.0, 0.05):
        config = PeftConfig.from_pretrained(str(start_adapter))
        config.lora_dropout = dropout  # type: ignore[attr-defined]
        policy = PeftModel.from_pretrained(load_base(ModelSpec(**tiny_spec))[0], str(start_adapter), is_trainable=True, config=config)
        with torch.no_grad():
            reference = policy.eval()(ids).logits.log_softmax(-1)
            torch.manual_seed(0)
            differences[dropout] = float((policy.train()(ids).logits.log_softmax(-1) - reference).abs().max())
    assert differences[0.0] == 0
    assert differences[0.05] > 1e-2
    with pytest.raises(GuardError):
        guard.check_reference(differences[0.05])
