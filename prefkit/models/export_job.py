"""The work of a model process: write a model with its adapter merged into the weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prefkit.models.load import ModelSpec, load_adapter, load_base


def merge(*, model: dict, adapter: str, output: str) -> dict:
    """Write the merged model and its tokenizer into the folder `output`, in the number format of the model.

    A model that was quantised for training is loaded with its plain weights here, because quantised ones cannot take the adapter in
    without loss; so the merged model differs a little from the one that was trained. Returns {"parameters", "dtype"}.
    """
    spec = replace(ModelSpec(**model), quantization="none")
    base, tokenizer = load_base(spec)
    merged = load_adapter(base, adapter, trainable=False).merge_and_unload()
    # The attention that sampling uses is prefkit's own; other programs choose theirs.
    merged.config._attn_implementation = "sdpa"
    merged.save_pretrained(Path(output), safe_serialization=True)
    tokenizer.save_pretrained(Path(output))
    return {"parameters": merged.num_parameters(), "dtype": str(merged.dtype).removeprefix("torch.")}
