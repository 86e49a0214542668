"""Trajectories and repairs as plain TRL takes them: only the repaired turn carries loss."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prefkit.data import columns
from prefkit.data.trajectories import Trajectory, Turn
from prefkit.runfolder import RunFolder
from prefkit.tasks.base import Example, Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from datasets import Dataset

Row = dict[str, Any]
REPAIR, STILL_WRONG = "SELECT name FROM item", "SELECT id FROM item"
EXAMPLE = Example("shop/names", "train", "shop", 1, "Which names are there?", REPAIR)
PROMPT = [{"role": "system", "content": "Answer with a query."}, {"role": "user", "content": "Which names are there?"}]


def answer(tokenizer: PreTrainedTokenizerBase, id: str, messages: list[Message], text: str, score: float) -> tuple[Row, Row]:
    """A rollout and its verdict with the tokens that a model process returns."""
    prompt: Any = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    ids = [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]  # type: ignore[list-item]
    row = {
        "id": id,
        "messages": messages,
        "prompt_ids": prompt["input_ids"],
        "completion": text,
        "completion_ids": ids,
        "ended": True,
        "k": 0,
    }
    status = "PASS" if score else "WRONG"
    return row, {"score": score, "status": status, "reason": "wrong rows", "feedback": "It returns 2 rows.", "key": f"key of {id}"}


def said(messages: list[Message], text: str) -> list[Message]:
    return [
        *messages,
        {"role": "assistant", "content": text},
        {"role": "user", "content": "It returns 2 rows.\nAnswer with a corrected query."},
    ]


@pytest.fixture(scope="module")
def found(tokenizer: PreTrainedTokenizerBase) -> list[Trajectory]:
    """One repaired in its second turn, one that stays open."""
    repaired, open_ = (Trajectory(EXAMPLE, [Turn(answer(tokenizer, f"first-{n}", PROMPT, "SELECT nam FROM item", 0))]) for n in range(2))
    first = said(PROMPT, "SELECT nam FROM item")
    for one in (repaired, open_):
        one.add([answer(tokenizer, "second", first, STILL_WRONG, 0)])
    last = said(first, STILL_WRONG)
    repaired.add([answer(tokenizer, "third", last, "SELECT 1", 0), answer(tokenizer, "fourth", last, REPAIR, 1)])
    return [repaired, open_]


@pytest.fixture(scope="module")
def dataset(found: list[Trajectory], tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The rows of the trajectories' file that have something to teach."""
    import datasets

    folder = tmp_path_factory.mktemp("run")
    RunFolder(folder).write_rows("trajectories/round-1.parquet", [one.row() for one in found], columns.trajectories())
    datasets.disable_progress_bars()
    rows = datasets.load_dataset(
        "parquet", data_files=str(folder / "trajectories/round-1.parquet"), split="train", cache_dir=str(folder / "cache")
    )
    return rows.filter(lambda row: row["completion"] is not None)


@pytest.mark.parametrize("names", [["input_ids", "labels"], ["prompt", "completion"]], ids=" ".join)
def test_sft_puts_loss_on_the_repaired_turn_alone(
    names: list[str], dataset: Dataset, tiny_folder: Path, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    arguments = SFTConfig(
        output_dir=str(tmp_path), use_cpu=True, max_steps=1, per_device_train_batch_size=1, report_to="none", bf16=False, disable_tqdm=True,
        gradient_checkpointing=False, save_strategy="no",
    )  # fmt: skip
    trainer = SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(tiny_folder),
        args=arguments,
        train_dataset=dataset.select_columns(names),
        processing_class=tokenizer,
    )
    (batch,) = list(trainer.get_train_dataloader())
    ids, labels = batch["input_ids"][0].tolist(), batch["labels"][0].tolist()
    taught = [place for place, label in enumerate(labels) if label != -100]
    assert [labels[place] for place in taught] == [ids[place] for place in taught]
    assert taught == list(range(taught[0], len(ids))), "one piece, at the end"
    # TRL's own tokens of a conversation have the line end that the template puts after its end token.
    assert str(tokenizer.decode([labels[place] for place in taught])).rstrip("\n") == f"{REPAIR}{tokenizer.eos_token}"
    context = tokenizer.decode(ids[: taught[0]])
    assert "SELECT nam FROM item" in context and STILL_WRONG in context and context.count("It returns 2 rows.") == 2
    assert 0 < trainer.train().training_loss < 100


def test_the_collator_of_transformers_leaves_the_labels_where_they_are(dataset: Dataset, tokenizer: PreTrainedTokenizerBase) -> None:
    from transformers import DataCollatorForSeq2Seq

    row = dataset[0]
    longer = {"input_ids": [*row["input_ids"], 5, 5], "labels": [*row["labels"], -100, -100]}
    batch = DataCollatorForSeq2Seq(tokenizer)([{name: row[name] for name in ("input_ids", "labels")}, longer])
    first = [label for label in batch["labels"][0].tolist() if label != -100]
    assert tokenizer.decode(first) == f"{REPAIR}{tokenizer.eos_token}"


def test_a_repair_over_a_wrong_one_is_a_pair_for_dpo(
    found: list[Trajectory], tiny_folder: Path, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM
    from trl.trainer.dpo_config import DPOConfig
    from trl.trainer.dpo_trainer import DPOTrainer

    import datasets

    run = RunFolder(tmp_path)
    run.write_rows("pairs/corrections-1.parquet", [pair for one in found if (pair := one.pair())], columns.pairs())
    rows = datasets.load_dataset(
        "parquet", data_files=str(run.file("pairs/corrections-1.parquet")), split="train", cache_dir=str(tmp_path / "cache")
    )
    arguments = DPOConfig(
        output_dir=str(tmp_path / "out"), use_cpu=True, max_steps=1, per_device_train_batch_size=1, report_to="none", bf16=False,
        disable_tqdm=True, gradient_checkpointing=False, save_strategy="no",
    )  # fmt: skip
    trainer = DPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(tiny_folder),
        args=arguments,
        train_dataset=rows.select_columns(["prompt", "chosen", "rejected"]),
        processing_class=tokenizer,
    )
    (batch,) = list(trainer.get_train_dataloader())
    texts = [str(tokenizer.decode(ids[mask.bool()])) for ids, mask in zip(batch["input_ids"], batch["completion_mask"], strict=True)]
    assert [text.rstrip("\n") for text in texts] == [f"{REPAIR}{tokenizer.eos_token}", f"SELECT 1{tokenizer.eos_token}"]
    assert trainer.train().training_loss == pytest.approx(0.6931, abs=1e-3), "policy and reference are the same before the first step"
