"""Load a causal model and its adapters, the same way everywhere: embedded, a local folder or a Hugging Face name; plain, NF4 or int8.

Every load goes through here, because wrong loading is silent: an adapter folder opened as a model trains nothing, a LoRA opened without
`is_trainable` has an empty optimiser, and on CPUs with AVX512-BF16 bitsandbytes repacks NF4 weights at the first evaluation and gives wrong
gradients ever after.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefkit.errors import ModelError
from prefkit.models import attention
from prefkit.models.embedded import embedded_model

if TYPE_CHECKING:
    import torch
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

QUANTIZATIONS = ("none", "nf4", "int8")
DTYPES = ("auto", "bfloat16", "float32")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Which model, and how to load it. `name`: "embedded", a folder, or a Hugging Face name."""

    name: str = "embedded"
    quantization: str = "none"
    dtype: str = "auto"
    cache: str = ""

    def to_dict(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LoraSpec:
    """The adapter's shape: rank, alpha (scaling = alpha / rank) and which linear layers carry it."""

    rank: int = 16
    alpha: int = 32
    targets: str = "all-linear"


def resolve(spec: ModelSpec) -> str:
    """The folder or name that transformers loads. The embedded model is unpacked on first use."""
    if spec.name == "embedded":
        return str(embedded_model(Path(spec.cache)))
    folder = Path(spec.name).expanduser()
    if (folder / "adapter_config.json").is_file():
        raise ModelError(f"{spec.name} is an adapter, not a model: name its base model with --model and continue from the run that made it")
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(f"{spec.name} holds no model: there is no config.json in it")
        return str(folder)
    if spec.name.startswith((".", "/", "~")):
        raise ModelError(f"no model folder at {spec.name}: name `embedded`, an existing folder, or a Hugging Face model")
    return spec.name


def compute_dtype(dtype: str) -> torch.dtype:
    """bfloat16 where the processor (or GPU) computes in it, else float32; or the one that is asked for."""
    import torch

    if dtype != "auto":
        return getattr(torch, dtype)
    if torch.cuda.is_available():
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    return torch.bfloat16 if torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported() else torch.float32


def load_base(spec: ModelSpec) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model in evaluation mode and its tokenizer (with a padding token). Raises ModelError where it cannot be had."""
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    name = resolve(spec)
    options: dict = {"dtype": compute_dtype(spec.dtype), "attn_implementation": attention.register()}
    if torch.cuda.is_available():
        options["device_map"] = {"": torch.cuda.current_device()}
    if spec.quantization != "none":
        options["quantization_config"] = quantization_config(spec.quantization, options["dtype"])
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
        model = AutoModelForCausalLM.from_pretrained(name, **options)
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelError(f"the model {spec.name} cannot be loaded: {str(error).splitlines()[0]}") from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.chat_template is None:
        raise ModelError(f"the model {spec.name} has no chat template: choose an instruction-tuned model")
    keep_nf4_unpacked(model)
    return model.eval(), tokenizer


def quantization_config(quantization: str, dtype: torch.dtype):
    """The bitsandbytes configuration; nf4 is QLoRA's (double quantisation, arXiv 2305.14314)."""
    from transformers import BitsAndBytesConfig

    if quantization == "int8":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype)


def keep_nf4_unpacked(model: torch.nn.Module) -> int:
    """Stop bitsandbytes' CPU repacking, whose kernel has no gradient. Returns the number of layers it concerned."""
    packed: list[Any] = [module for module in model.modules() if hasattr(module, "support_avx512bf16_for_cpu")]
    for module in packed:
        module.support_avx512bf16_for_cpu = False
    return len(packed)


def new_adapter(model: PreTrainedModel, lora: LoraSpec, seed: int) -> PeftModel:
    """A fresh trainable LoRA on `model`, drawn from `seed`. No dropout: it would make the policy differ from its own samples."""
    import torch
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    config = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, lora_dropout=0.0, target_modules=lora.targets, task_type="CAUSAL_LM")
    return get_peft_model(model, config)


def load_adapter(model: PreTrainedModel, folder: str | Path, trainable: bool) -> PeftModel:
    """The adapter of `folder` on `model` under the name `default`."""
    from peft import PeftModel

    config = Path(folder) / "adapter_config.json"
    if not config.is_file():
        raise ModelError(f"no adapter in {folder}: there is no adapter_config.json")
    json.loads(config.read_text())
    return PeftModel.from_pretrained(model, str(folder), is_trainable=trainable)


def with_adapter(base: PreTrainedModel, adapter: str, spec: ModelSpec) -> PreTrainedModel:
    """A copy of `base` to sample from: merged with the adapter where weights are plain, with it on top where they are quantised."""
    import copy

    wrapped = load_adapter(copy.deepcopy(base), adapter, trainable=False)
    policy: Any = wrapped.merge_and_unload() if spec.quantization == "none" else wrapped.get_base_model()
    return policy.eval()


def end_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The tokens that end an answer: the tokenizer's end token and the model's own."""
    own = model.generation_config.eos_token_id if model.generation_config is not None else None
    ids: list[Any] = [tokenizer.eos_token_id, *(own if isinstance(own, list) else [own])]
    return sorted({token for token in ids if token is not None})


class MergedCopy:
    """A plain copy of a LoRA model for sampling while it trains: weights are base + scaling · B·A, refreshed by `sync`.

    Sampling through unmerged LoRA layers costs about half as much again, and merging into the training model and back drifts in bfloat16.
    """

    def __init__(self, model: PeftModel):
        import copy

        base = model.get_base_model()
        # A forward that was patched onto the training model refers to it; the copy must not inherit it.
        patched = [(module, module.__dict__.pop("forward")) for module in base.modules() if "forward" in module.__dict__]
        wrapped = copy.deepcopy(model)
        for module, forward in patched:
            module.forward = forward
        self.source = model
        self.model = wrapped.unload().eval()
        self.model.requires_grad_(False)

    def sync(self, adapter: str = "default") -> PreTrainedModel:
        """Write the adapter's current weights into the copy and return it."""
        import torch
        from peft.tuners.lora import LoraLayer

        targets = dict(self.model.named_modules())
        layers: dict[str, Any] = {
            name: layer for name, layer in self.source.get_base_model().named_modules() if isinstance(layer, LoraLayer)
        }
        with torch.no_grad():
            for name, layer in layers.items():
                if adapter in layer.lora_A:
                    merged = layer.get_base_layer().weight.float() + layer.get_delta_weight(adapter).float()
                    targets[name].weight.copy_(merged)
        return self.model
