"""Fused LoRA products give PEFT's outputs and gradients, and step aside where PEFT does something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from prefkit.models import attention

if TYPE_CHECKING:
    import torch
    from peft import PeftModel
    from transformers import PreTrainedModel

IDS = [[5, 6, 7, 8, 9, 10], [5, 6, 7, 20, 21, 22]]

Model = Callable[[str, str], "PreTrainedModel"]
Lora = Callable[["PreTrainedModel"], "PeftModel"]


@pytest.fixture(params=["llama", "qwen2"])
def both(request: pytest.FixtureRequest, random_model: Model, with_lora: Lora) -> tuple[PeftModel, PeftModel]:
    """The same model with PEFT's LoRA layers and with fused ones. Qwen2 has biases."""
    from prefkit.train.fast_lora import speed_up_lora

    plain, fused = (with_lora(random_model(request.param, attention.register())) for _ in range(2))
    assert speed_up_lora(fused) == 2 * 7
    return plain.train(), fused.train()


def test_outputs_and_gradients_are_pefts(both: tuple[PeftModel, PeftModel]) -> None:
    (expected, expected_gradients), (found, gradients) = (outputs_and_gradients(model) for model in both)
    assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
    assert gradients.keys() == expected_gradients.keys()
    for name, value in expected_gradients.items():
        assert value.norm() > 0
        assert (gradients[name] - value).norm() / value.norm() < 1e-5, name


def test_in_bfloat16_it_is_as_near_to_float32_as_peft(both: tuple[PeftModel, PeftModel]) -> None:
    import torch

    plain, fused = both
    exact, exact_gradients = outputs_and_gradients(plain)
    errors = []
    for model in both:
        model.zero_grad()
        for parameter in model.parameters():
            if not parameter.requires_grad:
                parameter.data = parameter.data.bfloat16()
        with torch.autocast("cpu", torch.bfloat16):
            found, gradients = outputs_and_gradients(model)
        assert all(value.dtype == torch.float32 for value in gradients.values())
        worst = max(float((gradients[name] - value).norm() / value.norm()) for name, value in exact_gradients.items())
        errors.append((float((found.float() - exact).norm() / exact.norm()), worst))
    assert errors[1][0] < 1.2 * errors[0][0] + 1e-3
    assert errors[1][1] < 1.2 * errors[0][1] + 1e-3
    assert fused.dtype == plain.dtype


def test_switched_off_and_other_adapters_are_left_to_peft(both: tuple[PeftModel, PeftModel]) -> None:
    import torch

    ids = torch.tensor(IDS)
    with torch.no_grad():
        for model in both:
            model.eval()
        with both[0].disable_adapter(), both[1].disable_adapter():
            assert torch.equal(both[0](ids).logits, both[1](ids).logits)
        for model in both:
            model.add_adapter("ref", model.peft_config["default"])
            model.set_adapter("ref")
        base = both[0](ids).logits
        assert (both[1](ids).logits - base).abs().max() < 1e-4, "a fresh adapter changes nothing"
        for model in both:
            model.set_adapter("default")
        assert (both[1](ids).logits - base).abs().max() > 0.1
        before = both[1](ids).logits
        both[1].merge_adapter()
        assert (both[1](ids).logits - before).abs().max() < 1e-3
        both[1].unmerge_adapter()
        assert (both[1](ids).logits - before).abs().max() < 1e-3


def test_layers_with_dropout_are_left_as_they_are(random_model: Model) -> None:
    from peft import LoraConfig, get_peft_model

    from prefkit.train.fast_lora import speed_up_lora

    config = LoraConfig(r=4, lora_dropout=0.1, target_modules=["q_proj"], task_type="CAUSAL_LM")
    assert speed_up_lora(get_peft_model(random_model("llama", "sdpa"), config)) == 0


def outputs_and_gradients(model: PeftModel) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    import torch

    ids = torch.tensor(IDS)
    logits = model(input_ids=ids).logits.float()
    (logits.log_softmax(-1) * torch.linspace(-1, 1, logits.shape[-1])).sum().backward()
    return logits.detach(), {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}
