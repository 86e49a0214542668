"""A run's pairs train with plain TRL: the page's own script, on a tiny random model, without any code of prefkit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prefkit.data import columns
from prefkit.data.pairs import Settings, own_pairs
from prefkit.runfolder import RunFolder
from prefkit.tasks.base import Example

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pairs.md"
MODEL, FILE = "HuggingFaceTB/SmolLM2-135M-Instruct", "runs/sql-gen-…/pairs/round-1.parquet"
ANSWERS = (("SELECT 1", 1.0), ("SELECT 2", 0.0), ("SELECT COUNT(*) FROM item", 1.0), ("SELECT name", 0.0))


@pytest.fixture
def file(tmp_path: Path, tokenizer: PreTrainedTokenizerBase) -> Path:
    """Two pairs, and a row without a rejected side."""
    examples = [Example(f"q{number}", "train", "shop", 1, f"question {number}?", "SELECT 1") for number in range(2)]
    rollouts: list[dict[str, Any]] = []
    verdicts: list[dict[str, Any]] = []
    for example in examples:
        messages = [{"role": "user", "content": example.question}]
        prompt: Any = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        for k, (text, score) in enumerate(ANSWERS[: 4 if example.id == "q0" else 1]):
            identity = f"rollouts-1/{example.id}/{k}"
            ids: list[Any] = [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
            rollouts.append({
                "id": identity, "example_id": example.id, "messages": messages, "prompt_ids": prompt["input_ids"], "completion": text,
                "completion_ids": ids, "logprobs": [-1.0] * len(ids), "ended": True,
            })  # fmt: skip
            verdicts.append({"id": identity, "score": score, "status": "PASS" if score else "WRONG", "key": identity})
    rows, counts = own_pairs(examples, rollouts, verdicts, [], Settings("nearest", 2, 500, int(str(tokenizer.eos_token_id)), 0))
    assert (counts["rows"], counts["pairs"]) == (3, 2)
    return RunFolder(tmp_path).write_rows("pairs/round-1.parquet", rows, columns.pairs())


def test_the_pages_script_trains_a_step_of_dpo_and_one_of_sft(file: Path, tiny_folder: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 2 and MODEL in blocks[0] and FILE in blocks[0] and "prefkit" not in "".join(blocks)
    note = "seen.append({'rows': len(trainer.train_dataset), 'steps': trainer.state.global_step, **trainer.state.log_history[-1]})\n"
    code = "seen = []\n" + "".join(f"{block}{note}" for block in blocks)
    code += "import json, sys\nprint(json.dumps([seen, [name for name in sys.modules if name.startswith('prefkit')]]))\n"
    script = tmp_path / "script.py"
    code = code.replace(MODEL, str(tiny_folder)).replace(FILE, str(file)).replace("max_length=None", "max_length=None, use_cpu=True")
    script.write_text(code, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "WANDB_MODE": "disabled",
        "TQDM_DISABLE": "1",
        "OMP_NUM_THREADS": "1",
    }
    environment["HF_DATASETS_CACHE"] = str(tmp_path / "cache")
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    (dpo, sft), ours = json.loads(done.stdout.splitlines()[-1])
    assert ours == []
    assert (dpo["rows"], dpo["steps"], sft["rows"]) == (2, 3, 3)
    assert dpo["train_loss"] == pytest.approx(0.693, abs=0.05), "at the start a DPO loss is ln 2"
    assert sft["train_loss"] > 1
