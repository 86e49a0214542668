"""Calibration: small online batches of GRPO from the warm-started adapter, which is also the KL reference, through TRL's GRPOTrainer.

Each step samples K answers for a few prompts with prefkit's own sampler, verifies them, and moves the policy towards the right ones of each
group (GRPO, arXiv 2402.03300). Reward is the verdict's score; an answer that cannot be judged has none and is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from prefkit.memory import return_memory
from prefkit.models.generate import sample, stream_seed
from prefkit.models.load import LoraSpec, MergedCopy, ModelSpec, compute_dtype, end_ids
from prefkit.train import guard
from prefkit.train.checkpoints import latest_checkpoint
from prefkit.train.training import micro_batch, ranks, save_adapter, trainable_policy, training_arguments

# Few steps on few groups: each is noisy, so the first are small, and the last settle.
SCHEDULE = {"scheduler": "linear", "warmup_ratio": 0.2}
GROUPS = 3  # prompts in one forward, with their answers; with shared prefixes about 1,000 nodes


def run(
    *,
    model: dict,
    adapter: str,
    prompts: list[dict],
    output: str,
    settings: dict,
    seed: int,
    cache: str | None,
    report: Callable[[dict], None],
) -> dict:
    """Calibrate and save the adapter into `output`/adapter, with a candidate every `save_every` steps as `output`/candidates/step-N.

    Args: adapter: the start and the reference; prompts: {"name", "messages", "golds", "database" (its name), "databases" (its files)};
    settings: those of the recipe's calibrate, and max_new_tokens, timeout_s, mix.
    Returns the figures steps, tokens, reward_first, reward_last, kl_last, groups_with_signal, changed_share, start_difference.
    """
    from trl.trainer.grpo_config import GRPOConfig

    from prefkit.train.callbacks import CandidateCallback, MemoryCallback, MetricsCallback
    from prefkit.train.trl_seams import GroupTrainer

    guard.refuse_vllm_on_4bit(model["quantization"], use_vllm=False)
    spec, folder = ModelSpec(**model), Path(output)
    policy, tokenizer, shared = trainable_policy(spec, adapter, LoraSpec(), seed)
    metrics = MetricsCallback(report)
    rows = prompt_rows(prompts, least=groups_per_rank(settings) * ranks())
    with Reward(prompts, settings, Path(cache) if cache else None) as reward:
        sampler = OwnSampler(policy, tokenizer, spec, prompts, settings, seed)
        start = guard.Snapshot(policy)
        trainer = GroupTrainer(
            model=policy,
            args=GRPOConfig(**grpo_arguments(folder, spec, settings, seed)),
            reward_funcs=reward,
            train_dataset=rows,
            processing_class=tokenizer,
            callbacks=[metrics, CandidateCallback(folder / "candidates", settings["save_every"]), MemoryCallback(every=1)],
            sampler=sampler,
            groups=rows["database"],
            block=groups_per_forward(settings),
            negatives=settings["negatives"],
        )
        sampler.trainer = trainer
        guard.before_training(trainer.model, adapter, start)
        difference = start_difference(trainer, tokenizer, prompts[0]["messages"])
        guard.check_reference(difference)
        trainer.train(resume_from_checkpoint=latest_checkpoint(folder))
    save_adapter(trainer, folder / "adapter")
    return {
        "steps": trainer.state.global_step,
        "tokens": int(trainer.state.num_input_tokens_seen),
        "reward_first": metrics.first("reward"),
        "reward_last": metrics.last("reward"),
        "kl_last": metrics.last("kl"),
        "groups_with_signal": groups_with_signal(metrics.rows),
        "changed_share": start.changed_share(trainer.model),
        "start_difference": difference,
        "shared_prefix": shared,
    }


def grpo_arguments(folder: Path, spec: ModelSpec, settings: dict, seed: int) -> dict:
    """GRPOConfig's arguments. One optimiser step is one generation of `prompts` · `k` answers, shared out over the ranks in whole groups:
    a number of prompts that the ranks do not divide is rounded up."""
    k, groups = settings["k"], groups_per_forward(settings)
    return {
        **training_arguments(folder, spec, {**settings, **SCHEDULE}, seed, compute_dtype(spec.dtype)),
        "per_device_train_batch_size": groups * k,
        "gradient_accumulation_steps": groups_per_rank(settings) // groups,
        "num_generations": k,
        "max_completion_length": settings["max_new_tokens"],
        "max_steps": settings["steps"],
        "beta": settings["beta"],
        "temperature": settings["temperature"],
        "loss_type": settings["loss_type"],
        "scale_rewards": settings["scale_rewards"],
    }


def groups_with_signal(rows: list[dict]) -> float | None:
    """The mean share of groups with different rewards over the steps in `rows` of metrics; None where no step says it."""
    signal = [1 - row["frac_reward_zero_std"] for row in rows if "frac_reward_zero_std" in row]
    return sum(signal) / len(signal) if signal else None


def groups_per_rank(settings: dict) -> int:
    """How many prompts each rank answers in one step."""
    return -(-settings["prompts"] // ranks())


def groups_per_forward(settings: dict) -> int:
    """How many prompts, of one database where there are so many, are computed together."""
    return micro_batch(groups_per_rank(settings), GROUPS)


def prompt_rows(prompts: list[dict], least: int):
    """The prompts as TRL's dataset of at least `least` rows; everything else stays with the reward, found by name.

    TRL drops what does not fill a step, so fewer prompts than a step takes would train nothing: they are repeated.
    """
    from datasets import Dataset

    rows = [{"prompt": prompt["messages"], "name": prompt["name"], "database": prompt["database"]} for prompt in prompts]
    return Dataset.from_list(rows * -(-least // len(rows)))


class OwnSampler:
    """TRL's generation method: unique prompts are prefilled once, from a merged copy of the policy where its weights are plain."""

    def __init__(self, policy, tokenizer, spec: ModelSpec, prompts: list[dict], settings: dict, seed: int):
        self.merged = MergedCopy(policy) if spec.quantization == "none" else None
        self.policy, self.settings, self.seed = policy, settings, seed
        self.end = end_ids(policy.get_base_model(), tokenizer)
        self.trainer: Any = None  # set as soon as there is one: its constructor takes the sampler

    def __call__(self, prompt_ids: list[list[int]], k: int) -> tuple[list[list[int]], list[list[float]]]:
        step, rank = self.trainer.state.global_step, self.trainer.accelerator.process_index
        unique = prompt_ids[::k]
        seeds = [[stream_seed(self.seed, f"calibrate/{step}/{rank}/{row}", index) for index in range(k)] for row in range(len(unique))]
        options = {"end_ids": self.end, "max_new_tokens": self.settings["max_new_tokens"], "temperature": self.settings["temperature"]}
        if self.merged:
            groups = sample(self.merged.sync(), unique, seeds, **options)
        else:
            self.policy.eval()
            with self.trainer.accelerator.autocast():
                groups = sample(self.policy.get_base_model(), unique, seeds, **options)
            self.policy.train()
        return_memory()  # what the decoding used is not what the training will ask for
        answers = [answer for group in groups for answer in group]
        return [answer.ids for answer in answers], [answer.logprobs for answer in answers]


class Reward:
    """The verdict's score of each answer; None where it cannot be judged, which TRL leaves out of the group."""

    __name__ = "verified"

    def __init__(self, prompts: list[dict], settings: dict, cache: Path | None):
        from prefkit.verify.scheduler import Scheduler

        self.examples = {prompt["name"]: prompt for prompt in prompts}
        self.settings = settings
        self.scheduler = Scheduler(workers=1, cache=cache)
        self.trusts: set[str] = set()

    def __enter__(self) -> Reward:
        self.scheduler.__enter__()
        return self

    def __exit__(self, *exception) -> None:
        self.scheduler.__exit__(*exception)

    def __call__(self, prompts, completions, name, **_columns) -> list[float | None]:
        from prefkit.verify.sql import SqlCheck
        from prefkit.verify.trust import require_one_kind

        checks: list[SqlCheck] = []
        for number, (completion, key) in enumerate(zip(completions, name, strict=True)):
            example = self.examples[key]
            checks.append(
                SqlCheck(
                    id=str(number),
                    answer=completion[-1]["content"],
                    golds=tuple(example["golds"]),
                    databases=tuple(example["databases"]),
                    timeout_s=self.settings["timeout_s"],
                )
            )
        verdicts = list(self.scheduler.verify(checks))
        self.trusts.update(verdict.trust for verdict in verdicts if verdict.score is not None)
        require_one_kind(self.trusts, self.settings.get("mix", False), "the rewards of calibration")
        return [verdict.score for verdict in verdicts]


def start_difference(trainer, tokenizer, messages: list[dict]) -> float:
    """The largest difference in log-probability between policy and reference on a probe prompt, before any step."""
    import torch
    from trl.trainer.utils import use_adapter

    ids = torch.tensor(
        [tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]], device=trainer.accelerator.device
    )
    model = trainer.accelerator.unwrap_model(trainer.model)
    with torch.no_grad(), trainer.accelerator.autocast():
        policy = model(input_ids=ids).logits.float().log_softmax(-1)
        with use_adapter(model, adapter_name="ref" if "ref" in model.peft_config else None):
            reference = model(input_ids=ids).logits.float().log_softmax(-1)
    return float((policy - reference).abs().max())
