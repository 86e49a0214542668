"""What the tests of training share: one thread, stock TRL after each test, and ways to look at adapters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def stock_trl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo after each test what training changes in TRL for the whole process."""
    from trl.trainer import utils

    for name in ("_use_triton", "_CHUNKED_LOGPROB_CHUNK_SIZE"):
        monkeypatch.setattr(utils, name, vars(utils)[name])


@pytest.fixture(scope="session")
def tokenizer(tiny_folder: Path) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_folder)


@pytest.fixture(scope="session")
def with_lora() -> Callable[[PreTrainedModel], PeftModel]:
    """Put a LoRA with random weights in both matrices on a model: with B at zero no gradient would reach A."""
    import torch
    from peft import LoraConfig, get_peft_model

    def wrap(model: PreTrainedModel) -> PeftModel:
        wrapped = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM"))
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in wrapped.parameters():
                if parameter.requires_grad:
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
        return wrapped

    return wrap


@pytest.fixture
def tiny_spec(tiny_folder: Path) -> dict[str, str]:
    """The tiny model in float32, as stages name it."""
    return {"name": str(tiny_folder), "quantization": "none", "dtype": "float32", "cache": ""}


@pytest.fixture
def start_adapter(tiny_spec: dict[str, str], with_lora: Callable[[PreTrainedModel], PeftModel], tmp_path: Path) -> Path:
    """The folder of an adapter with random weights on the tiny model."""
    from prefkit.models.load import ModelSpec, load_base

    with_lora(load_base(ModelSpec(**tiny_spec))[0]).save_pretrained(str(tmp_path / "start"))
    return tmp_path / "start"


class Reports:
    """Takes what training reports; at the step `stop` it fails as a killed process would: nothing after it is done."""

    def __init__(self, stop: int | None = None) -> None:
        self.stop = stop
        self.events: list[dict[str, Any]] = []

    def __call__(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        if event["progress"] == self.stop:
            raise Killed

    @property
    def steps(self) -> list[int]:
        return [event["progress"] for event in self.events]

    def values(self, name: str) -> list[float]:
        return [event["metrics"][name] for event in self.events if name in event["metrics"]]


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def reports() -> type[Reports]:
    return Reports


@pytest.fixture
def killed() -> type[BaseException]:
    return Killed


@pytest.fixture(scope="session")
def weights() -> Callable[[str | Path], dict[str, torch.Tensor]]:
    """The weights of a saved adapter."""
    from safetensors.torch import load_file

    return lambda folder: load_file(Path(folder) / "adapter_model.safetensors")


@pytest.fixture(scope="session")
def difference() -> Callable[[dict, dict], float]:
    """The largest difference between two sets of weights of the same names."""

    def largest(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
        assert first.keys() == second.keys()
        return max(float((first[name] - second[name]).abs().max()) for name in first)

    return largest
