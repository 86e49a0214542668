"""A reward model of a few thousand random weights as the judge's scorer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from prefkit.errors import ModelError
from prefkit.models.reward_model import RewardModel
from prefkit.verify.judge import JudgeCheck, JudgeVerifier
from prefkit.verify.judge_orders import Orders
from prefkit.verify.judge_rubric import DEFAULT
from prefkit.verify.judge_scorer import CannotJudge, Question
from prefkit.verify.verdict import Status

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
PROMPT = "Name a fruit."


def save(folder: Path, labels: int = 1, template: str | None = TEMPLATE) -> Path:
    """A random model that reads bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast

    words = {token: number for number, token in enumerate(["<|im_end|>", "<|im_start|>", *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    tokens = Tokenizer(models.BPE(words, []))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, eos_token="<|im_end|>", pad_token="<|im_end|>", chat_template=template)
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    sizes["num_labels"] = labels
    config = LlamaConfig(vocab_size=len(words), max_position_embeddings=256, pad_token_id=0, **sizes)
    LlamaForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("reward"))


@pytest.fixture(scope="module")
def model(folder: Path) -> RewardModel:
    return RewardModel(folder)


def test_a_reward_is_the_logit_of_the_whole_chat(model: RewardModel, folder: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = f"<|im_start|>user\n{PROMPT}<|im_end|>\n<|im_start|>assistant\nA pear.<|im_end|>\n"
    with torch.inference_mode():
        logit = AutoModelForSequenceClassification.from_pretrained(folder)(**tokenizer(text, return_tensors="pt")).logits[0, 0].item()
    assert model.reward(PROMPT, "A pear.") == pytest.approx(logit, rel=1e-5, abs=1e-6)
    assert model.reward(PROMPT, "A pear.") == model.reward(PROMPT, "A pear.") != model.reward(PROMPT, "A stone.")


def test_ratings_and_choices_follow_the_reward(model: RewardModel) -> None:
    answers = ("A pear.", "A stone.")
    rewards = [model.reward(PROMPT, answer) for answer in answers]
    ratings = [model.rate(Question(PROMPT, (answer,), DEFAULT)) for answer in answers]
    assert all(0 < rating.score < 1 for rating in ratings)
    assert (ratings[0].score > ratings[1].score) == (rewards[0] > rewards[1])
    better = "first" if rewards[0] > rewards[1] else "second"
    assert model.prefer(Question(PROMPT, answers, DEFAULT)) == better
    assert model.prefer(Question(PROMPT, answers[::-1], DEFAULT)) == ("second" if better == "first" else "first")
    assert model.prefer(Question(PROMPT, ("A pear.", "A pear."), DEFAULT)) == "tie"


def test_the_judge_runs_on_it(model: RewardModel) -> None:
    verifier = JudgeVerifier(model)
    good, bad = sorted(("A pear.", "A stone."), key=lambda answer: -model.reward(PROMPT, answer))
    judgements = [verifier.decide(JudgeCheck("1", a, PROMPT, other=b)) for a, b in ((good, bad), (bad, good), (good, good))]
    assert [(one.status, one.points) for one in judgements] == [(Status.PASS, 1.0), (Status.WRONG, 0.0), (Status.WRONG, 0.5)]
    # Each answer is read by itself: there is no order to be swayed by, and nothing to count.
    assert Orders.of({one.reason: 1 for one in judgements}).pairs == 0
    assert [one.reason.partition(" ")[0] for one in judgements] == ["higher", "lower", "same"]
    rated = verifier.decide(JudgeCheck("1", good, PROMPT))
    assert rated.points == model.rate(Question(PROMPT, (good,), DEFAULT)).score
    verifier.close()


def test_what_is_longer_than_its_window_has_no_rating(model: RewardModel) -> None:
    with pytest.raises(CannotJudge, match="reads 256"):
        model.reward(PROMPT, "pear " * 100)
    verifier = JudgeVerifier(model)
    assert verifier.decide(JudgeCheck("1", "pear " * 100, PROMPT)).status is Status.UNVERIFIABLE
    assert isinstance(model.reward(PROMPT, "\udce9\x00"), float)
    verifier.close()


def test_its_identity_changes_with_its_files(model: RewardModel, folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    assert RewardModel(copy).identity == model.identity
    config = json.loads((copy / "tokenizer_config.json").read_text())
    (copy / "tokenizer_config.json").write_text(json.dumps(config | {"model_max_length": 7}))
    assert RewardModel(copy).identity != model.identity


def test_a_model_without_a_template_reads_the_texts_alone(tmp_path: Path) -> None:
    bare = RewardModel(save(tmp_path / "bare", template=None))
    assert bare.reward(PROMPT, "A pear.") != bare.reward(PROMPT, "A stone.")


def test_folders_that_are_no_reward_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json"):
        RewardModel(tmp_path)
    several = RewardModel(save(tmp_path / "several", labels=3))
    with pytest.raises(ModelError, match="3 labels"):
        several.reward(PROMPT, "A pear.")
    pickled = save(tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(ModelError, match="safetensors"):
        RewardModel(pickled)
