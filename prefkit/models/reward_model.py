"""A trained reward model of Hugging Face's sequence-classification form, as a scorer for the judge (verify/judge_scorer.py).

The form is AutoModelForSequenceClassification with one label: its single logit is the reward of a whole chat, as TRL's RewardTrainer and
most published reward models have it. Rewards of one model can be compared with each other; as a rating the logistic function of the reward
stands for it, which is what the model was trained to say of a reward's difference from 0. It knows no rubric but its own.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefkit.errors import ModelError
from prefkit.hashing import hash_bytes, hash_value
from prefkit.verify.judge_scorer import CannotJudge, Choice, Question, Rating

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MARGIN = 1e-4
"""Rewards nearer to each other than this are a tie: less than what another order of additions changes."""


class RewardModel:
    """A Scorer. Loads nothing before the first question, takes weights in safetensors form alone, runs no code of the folder."""

    def __init__(self, folder: str | Path) -> None:
        """`folder`: a local folder with config.json, the weights and the tokenizer. Raises ModelError where it is none."""
        self._folder = Path(folder).expanduser()
        if not (self._folder / "config.json").is_file():
            raise ModelError(f"no reward model in {self._folder}: a folder with config.json, *.safetensors and a tokenizer is expected")
        if not list(self._folder.glob("*.safetensors")):
            raise ModelError(f"{self._folder} has no *.safetensors: save the reward model with safe serialization")
        self._loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase] | None = None
        self._identity: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def identity(self) -> Mapping[str, str]:
        """The hash of all files that decide a reward."""
        if not self._identity:
            files = sorted(path for path in self._folder.iterdir() if path.suffix in (".json", ".safetensors", ".jinja", ".model", ".txt"))
            self._identity = {"reward_model": hash_value([[path.name, hash_bytes(path)] for path in files])}
        return self._identity

    @property
    def sees_order(self) -> bool:
        """Each answer is read by itself."""
        return False

    def rate(self, question: Question) -> Rating:
        reward = self.reward(question.prompt, question.answers[0])
        score = 1 / (1 + math.exp(-reward)) if reward > -700 else 0.0
        return Rating(score, {"reward": reward})

    def prefer(self, question: Question) -> Choice:
        first, second = (self.reward(question.prompt, answer) for answer in question.answers)
        if abs(first - second) < MARGIN:
            return "tie"
        return "first" if first > second else "second"

    def reward(self, prompt: str, answer: str) -> float:
        """The reward of one answer. Raises CannotJudge where prompt and answer are longer than the model reads, ModelError."""
        import torch

        with self._lock:
            model, tokenizer = self._load()
            inputs = tokenizer(_chat(tokenizer, prompt, answer), return_tensors="pt", add_special_tokens=tokenizer.chat_template is None)
            length = inputs["input_ids"].shape[1]
            window = getattr(model.config, "max_position_embeddings", None) or tokenizer.model_max_length
            if length > window:
                raise CannotJudge(f"too long to be judged: {length} tokens, the reward model reads {window}")
            with torch.inference_mode():
                reward = model(**inputs.to(model.device)).logits.float().reshape(-1)[0].item()
        if not math.isfinite(reward):
            raise CannotJudge("the reward is no finite number")
        return reward

    def _load(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        if self._loaded is None:
            import torch
            from transformers import AutoModelForSequenceClassification, AutoTokenizer

            options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
            try:
                tokenizer = AutoTokenizer.from_pretrained(self._folder, **options)
                model = AutoModelForSequenceClassification.from_pretrained(
                    self._folder, dtype=torch.float32, use_safetensors=True, **options
                )
            except (OSError, ValueError, KeyError) as error:
                raise ModelError(f"the reward model in {self._folder} cannot be loaded: {str(error).splitlines()[0]}") from error
            if model.config.num_labels != 1:
                raise ModelError(f"the model in {self._folder} has {model.config.num_labels} labels; a reward model has one")
            if torch.cuda.is_available():
                model.to("cuda")
            self._loaded = model.eval(), tokenizer
        return self._loaded


def _chat(tokenizer: PreTrainedTokenizerBase, prompt: str, answer: str) -> str:
    """The whole chat as the model was trained to read it; without a template, the two texts one after the other."""
    prompt, answer = (text.encode("utf-8", "replace").decode() for text in (prompt, answer))
    if tokenizer.chat_template is None:
        return f"{prompt}\n\n{answer}"
    turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
    return str(tokenizer.apply_chat_template(turns, tokenize=False))
