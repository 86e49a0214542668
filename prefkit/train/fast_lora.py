"""LoRA layers as one autograd step each: y = x·Wᵀ + s·(x·Aᵀ)·Bᵀ, in place, in the dtype of x.

PEFT's layer is a chain of small operations, each over the whole output: casts, two thin products, a scaling, an addition. On a processor
they cost twice as much as the product with W itself. Here the scaling goes into B, the addition into the product, and the backward pass
needs x and x·Aᵀ alone. Parameters, saving and loading stay PEFT's; the numbers are the same up to rounding (a test compares them).
"""

from __future__ import annotations

import types

import torch
from peft.tuners.lora import Linear as PeftLinear


class _LoraProduct(torch.autograd.Function):
    """x (N, K), W (M, K) frozen, bias (M) or None, A (R, K), B (M, R) -> (N, M)."""

    @staticmethod
    def forward(ctx, x, weight, bias, a, b, scaling):
        dtype = x.dtype
        a_cast, b_cast = a.to(dtype), (b * scaling).to(dtype)
        inner = x @ a_cast.t()
        y = x @ weight.t() if bias is None else torch.addmm(bias, x, weight.t())
        y.addmm_(inner, b_cast.t())
        ctx.save_for_backward(x, weight, inner, a_cast, b_cast)
        ctx.scaling = scaling
        return y

    @staticmethod
    def backward(ctx, grad):
        x, weight, inner, a, b = ctx.saved_tensors
        grad_inner = grad @ b
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = grad @ weight
            grad_x.addmm_(grad_inner, a)
        grad_a = (grad_inner.t() @ x).float() if ctx.needs_input_grad[3] else None
        grad_b = (grad.t() @ inner).float().mul_(ctx.scaling) if ctx.needs_input_grad[4] else None
        return grad_x, None, None, grad_a, grad_b, None


def _forward(self, x, *args, **kwargs):
    adapters = self.active_adapters
    if self.disable_adapters or self.merged or len(adapters) != 1 or adapters[0] not in self.lora_A or args or kwargs or self.lora_variant:
        return type(self).forward(self, x, *args, **kwargs)
    name, base = adapters[0], self.base_layer
    flat = x.reshape(-1, x.shape[-1]).to(base.weight.dtype)
    with torch.autocast(x.device.type, enabled=False):
        y = _LoraProduct.apply(flat, base.weight, base.bias, self.lora_A[name].weight, self.lora_B[name].weight, self.scaling[name])
    return y.view(*x.shape[:-1], -1)


def speed_up_lora(model: torch.nn.Module) -> int:
    """Give every plain PEFT linear layer on a plain (not quantised) weight without dropout the fused product. Returns how many."""
    count = 0
    for module in model.modules():
        if type(module) is not PeftLinear or type(module.base_layer) is not torch.nn.Linear:
            continue
        if not any(isinstance(layer, torch.nn.Dropout) and layer.p > 0 for layer in module.lora_dropout.values()):
            module.forward = types.MethodType(_forward, module)
            count += 1
    return count
