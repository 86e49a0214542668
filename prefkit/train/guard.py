"""Guards against training that fails silently. Each raises GuardError, or mends what can be mended, and says so in the stage's figures.

1. NF4 on CPU: bitsandbytes repacks weights into a kernel without gradients. Kept from it at load (`models.load.keep_nf4_unpacked`),
   checked here.
2. TRL casts QLoRA adapters to bfloat16, where small updates round away: `upcast_trainable`, and `Snapshot.changed_share` measures.
3. The wrong adapter, or none that trains: `check_start`.
4. vLLM over a 4-bit trainer base drifts with every sync: `refuse_vllm_on_4bit`.
5. Dropout makes the policy differ from its own samples: `check_no_dropout`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prefkit.errors import GuardError

if TYPE_CHECKING:
    import torch


class Snapshot:
    """The trainable parameters at one moment."""

    def __init__(self, model: torch.nn.Module):
        self.values = {name: parameter.detach().clone() for name, parameter in model.named_parameters() if parameter.requires_grad}

    def changed_share(self, model: torch.nn.Module) -> float:
        """The share of trainable elements that differ from the snapshot."""
        changed = total = 0
        for name, parameter in model.named_parameters():
            if name in self.values:
                changed += int((parameter.detach() != self.values[name]).sum())
                total += parameter.numel()
        return changed / max(total, 1)


def upcast_trainable(model: torch.nn.Module, start: Snapshot) -> int:
    """Undo the cast that a trainer's constructor did: every trainable parameter in float32 again, with the values of `start`, which the
    cast had rounded. Returns how many parameters were cast."""
    import torch

    count = 0
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and parameter.dtype != torch.float32:
            parameter.data = start.values[name].to(parameter.device, torch.float32, copy=True)
            count += 1
    return count


def check_trainable(model: torch.nn.Module) -> int:
    """The number of trainable elements; GuardError where there is none."""
    count = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    if not count:
        raise GuardError("nothing would be trained: no parameter requires a gradient. The adapter was loaded without is_trainable=True")
    return count


def check_start(model: torch.nn.Module, adapter: str | Path) -> None:
    """The trainable weights must be those of the adapter file, to the last bit of float32; GuardError names the first that is not."""
    import torch
    from peft.utils import load_peft_weights

    check_trainable(model)
    stored = load_peft_weights(str(adapter), device="cpu")
    live = {name.replace(".default.", "."): parameter for name, parameter in model.named_parameters() if ".default." in name}
    if len(live) != len(stored):
        raise GuardError(f"the policy has {len(live)} adapter weights, {adapter} has {len(stored)}: it is not that adapter")
    for name, value in stored.items():
        found = next((parameter for key, parameter in live.items() if key.endswith(name) or name.endswith(key)), None)
        if found is None or not torch.equal(found.detach().float().cpu(), value.float()):
            raise GuardError(f"the policy does not start from {adapter}: {name} differs")


def check_reference(difference: float, tolerance: float = 1e-3) -> None:
    """At step 0 policy and reference must give the same log-probabilities; `difference` is the largest found on a probe batch."""
    if not difference <= tolerance:
        raise GuardError(
            f"at the start the policy differs from its reference by {difference:.3g} in log-probability: the reference is not the start"
        )


def check_no_dropout(model: torch.nn.Module) -> None:
    """GuardError where a dropout layer is live: the policy would differ from its own samples and the KL to its start would not be 0."""
    import torch

    live = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Dropout) and module.p > 0]
    if live:
        raise GuardError(f"dropout is on in {live[0]} and {len(live) - 1} more layers: set lora_dropout to 0")


def check_nf4_trains(model: torch.nn.Module) -> None:
    """GuardError where an NF4 layer would still be repacked into the CPU kernel that has no gradient."""
    packed = [name for name, module in model.named_modules() if getattr(module, "support_avx512bf16_for_cpu", False)]
    if packed:
        raise GuardError(
            f"{len(packed)} NF4 layers (first: {packed[0]}) would be repacked for CPU inference and give wrong gradients: "
            "load the model through prefkit"
        )


def refuse_vllm_on_4bit(quantization: str, use_vllm: bool) -> None:
    """vLLM's sync merges the adapter into the 4-bit base and out again, which drifts (trl#3466, trl#4973)."""
    if use_vllm and quantization == "nf4":
        raise GuardError(
            "vLLM cannot sample for a trainer with a 4-bit base: each sync would change the base. "
            "Set model.quantization=none, or rollouts without vLLM"
        )


def before_training(model: torch.nn.Module, adapter: str | Path | None, start: Snapshot) -> int:
    """All guards that stand between a trainer's constructor and its first step. `start`: the trainable parameters before the constructor.

    Returns how many parameters were upcast to float32.
    """
    upcast = upcast_trainable(model, start)
    check_nf4_trains(model)
    check_no_dropout(model)
    check_trainable(model)
    if adapter:
        check_start(model, adapter)
    return upcast
