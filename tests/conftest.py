"""Tiny random models, and settings for all tests. They run on the CPU, also where there is a GPU."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# What other programs, or tests that were killed, have left there is none of ours.
_IN_TMP_BEFORE = set(os.listdir("/tmp"))

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# How long an example takes says more of the machine than of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def left_in_tmp() -> Callable[[str], list[str]]:
    """(pattern) -> names in /tmp that match it and were not there when the tests began."""
    return lambda pattern: sorted(set(fnmatch.filter(os.listdir("/tmp"), pattern)) - _IN_TMP_BEFORE)


@pytest.fixture(scope="session")
def embedded_folder() -> Path:
    """The embedded model as a local folder; converted where it is not yet in the cache."""
    from prefkit.models.embedded import embedded_model
    from prefkit.resources import cache_dir

    return embedded_model(cache_dir())


@pytest.fixture(scope="session")
def tiny_folder(embedded_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of two layers and hidden size 64 with the embedded model's tokenizer, as a Hugging Face folder in float32."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = AutoTokenizer.from_pretrained(embedded_folder)
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=tokenizer.bos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.1,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


SHAPE = {
    "vocab_size": 101, "hidden_size": 96, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 256, "eos_token_id": None, "bos_token_id": None, "pad_token_id": 0,
    "initializer_range": 0.3,
}  # fmt: skip


@pytest.fixture(scope="session")
def random_model() -> Callable[[str, str], PreTrainedModel]:
    """(llama or qwen2, attention implementation) -> a random model of 101 tokens in float32 and evaluation mode, the same weights each
    time. Qwen2 has biases. For tests that need no tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    kinds = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}

    def make(kind: str, attention: str) -> PreTrainedModel:
        config, model = kinds[kind]
        torch.manual_seed(1)
        made = model._from_config(config(**SHAPE), attn_implementation=attention, dtype=torch.float32)
        for name, parameter in made.named_parameters():
            if name.endswith("bias"):  # they begin at zero, where they would show nothing
                torch.nn.init.normal_(parameter, std=0.3)
        return made.eval()

    return make
