"""A model of a few thousand random weights that real model processes load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"


def tiny_model(folder: Path) -> None:
    """A random Llama of two layers, whose tokens are bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {token: number for number, token in enumerate(["<|im_end|>", "<|im_start|>", *letters])}
    tokens = Tokenizer(models.BPE(words, []))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, eos_token="<|im_end|>", pad_token="<|im_end|>", chat_template=TEMPLATE)
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2}
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(words), max_position_embeddings=2048, eos_token_id=0, pad_token_id=0, **sizes))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
