"""Calibration on a tiny model, in one process: it moves to what is rewarded, starts at its reference, goes on where it was killed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from prefkit.errors import DataError
from prefkit.train import calibrate, training

if TYPE_CHECKING:
    import torch

SETTINGS = {
    "steps": 2, "prompts": 2, "k": 4, "learning_rate": 1e-3, "beta": 0.05, "temperature": 1.0, "loss_type": "dapo", "scale_rewards": "none",
    "negatives": 1.0, "save_every": 1, "max_new_tokens": 6, "timeout_s": 2.0,
}  # fmt: skip

Run = Callable[..., dict[str, Any]]
Reports = Callable[..., Any]


class FakeReward:
    """Stands for the verifier: `judge(completion ids)` is the reward."""

    __name__ = "fake"

    def __init__(self, judge: Callable[[list[int]], float | None]) -> None:
        self.judge = judge

    def __call__(self, *_args: Any) -> FakeReward:
        return self

    def __enter__(self) -> Callable:
        # TRL asks for __name__ and calls with keywords.
        def fake(prompts: list, completions: list, completion_ids: list[list[int]], **_columns: Any) -> list[float | None]:
            return [self.judge(ids) for ids in completion_ids]

        return fake

    def __exit__(self, *_exception: object) -> None:
        pass


def even(ids: list[int]) -> float:
    """Right is what begins with an even token: half of all answers of a random model."""
    return float(ids[0] % 2 == 0)


@pytest.fixture
def one_side(tiny_folder: Path) -> Callable[[list[int]], float]:
    """Right is what begins with a token on one side of a plane through the embeddings: half of all answers, and easy to learn."""
    from safetensors.torch import load_file

    embeddings = load_file(tiny_folder / "model.safetensors")["model.embed_tokens.weight"]
    return lambda ids: float(embeddings[ids[0]][:8].sum() > 0)


@pytest.fixture
def prompts() -> list[dict[str, Any]]:
    return [
        {
            "name": f"q{number}", "messages": [{"role": "user", "content": text}], "golds": ["SELECT 1"], "database": f"d{number % 2}",
            "databases": [],
        }
        for number, text in enumerate(("How many?", "Which city?", "Who?", "What is the sum?"))
    ]


@pytest.fixture
def run(
    tiny_spec: dict[str, str], start_adapter: Path, prompts: list[dict], tmp_path: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Calibrate from the start adapter into tmp_path/`into` with settings changed by name."""

    def run(
        into: str = "out", report: Any = None, judge: Callable = even, asked: list[dict] | None = None, spec: dict | None = None,
        **changes: Any,
    ) -> dict[str, Any]:  # fmt: skip
        monkeypatch.setattr(calibrate, "Reward", FakeReward(judge))
        return calibrate.run(
            model={**tiny_spec, **(spec or {})}, adapter=str(start_adapter), prompts=asked or prompts, output=str(tmp_path / into),
            settings={**SETTINGS, **changes}, seed=5, cache=None, report=report or reports(),
        )  # fmt: skip

    return run


def test_it_starts_at_its_reference_and_moves_towards_the_reward(run: Run, reports: Reports, one_side: Callable, tmp_path: Path) -> None:
    report = reports()
    figures = run(report=report, judge=one_side, steps=16, prompts=4, k=16, learning_rate=3e-2, beta=0.01, save_every=8, max_new_tokens=1)
    assert figures["start_difference"] < 1e-5
    assert report.values("kl")[0] == pytest.approx(0, abs=1e-6)
    assert report.values("kl")[-1] > 1e-3
    rewards = report.values("reward")
    assert sum(rewards[-4:]) / 4 > 0.65, "a random model is right half of the time"
    assert (figures["steps"], figures["reward_last"]) == (16, pytest.approx(rewards[-1]))
    assert figures["changed_share"] > 0.95
    assert figures["groups_with_signal"] > 0.2
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["adapter", "candidates"]
    assert sorted(path.name for path in (tmp_path / "out/candidates").iterdir()) == ["step-16", "step-8"]


def test_the_only_step_teaches(run: Run) -> None:
    assert run(steps=1)["changed_share"] > 0.9


def test_learning_rate_0_changes_nothing(run: Run, tmp_path: Path, start_adapter: Path, weights: Callable, difference: Callable) -> None:
    figures = run(learning_rate=0.0)
    assert figures["changed_share"] == 0
    assert figures["kl_last"] == pytest.approx(0, abs=1e-6)
    start = weights(start_adapter)
    for folder in ("adapter", "candidates/step-1", "candidates/step-2"):
        assert difference(start, weights(tmp_path / "out" / folder)) == 0


def test_the_last_candidate_is_the_adapter(run: Run, tmp_path: Path, weights: Callable, difference: Callable) -> None:
    run(steps=3, save_every=2)
    assert sorted(path.name for path in (tmp_path / "out/candidates").iterdir()) == ["step-2", "step-3"]
    assert difference(weights(tmp_path / "out/adapter"), weights(tmp_path / "out/candidates/step-3")) == 0
    assert difference(weights(tmp_path / "out/adapter"), weights(tmp_path / "out/candidates/step-2")) > 0


@pytest.mark.parametrize("stop", [2, 3])
def test_killed_and_resumed_ends_with_the_same_adapters(
    stop: int, run: Run, reports: Reports, killed: type[BaseException], tmp_path: Path, weights: Callable, difference: Callable
) -> None:
    changes = {"steps": 4, "learning_rate": 1e-2, "prompts": 4}
    whole = reports()
    run("whole", report=whole, **changes)
    with pytest.raises(killed):
        run("killed", report=reports(stop=stop), **changes)
    resumed = reports()
    run("killed", report=resumed, **changes)
    assert resumed.steps == list(range(stop, 5))
    assert resumed.values("reward") == pytest.approx(whole.values("reward")[stop - 1 :])
    for folder in ("adapter", *(f"candidates/step-{step}" for step in range(1, 5))):
        assert difference(weights(tmp_path / "whole" / folder), weights(tmp_path / "killed" / folder)) < 1e-5


def test_answers_that_cannot_be_judged_teach_nothing(
    run: Run, tmp_path: Path, start_adapter: Path, weights: Callable, difference: Callable
) -> None:
    assert run("none", judge=lambda _ids: None)["changed_share"] == 0
    assert difference(weights(start_adapter), weights(tmp_path / "none/adapter")) == 0
    # Right answers and unjudged ones alone say nothing of what is better; were the unjudged wrong, they would.
    assert run("right", judge=lambda ids: 1.0 if ids[0] % 2 else None)["changed_share"] == 0
    assert run("wrong", judge=lambda ids: 1.0 if ids[0] % 2 else 0.0)["changed_share"] > 0.9


@pytest.mark.parametrize("negatives", [1.0, 0.25, 0.0])
def test_answers_below_the_mean_have_their_weight(negatives: float, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from trl.trainer.grpo_trainer import GRPOTrainer

    seen: list[float] = []
    compute = GRPOTrainer._compute_loss

    def spied(self: GRPOTrainer, model: Any, inputs: dict[str, torch.Tensor]) -> Any:
        seen.extend(inputs["advantages"].tolist())
        return compute(self, model, inputs)

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", spied)
    run(negatives=negatives)
    above, below = (sum(sign * value for value in seen if sign * value > 0) for sign in (1, -1))
    assert above > 0
    assert below == pytest.approx(negatives * above), "in a group of plain GRPO both sides have one weight"


def test_groups_that_are_all_right_or_all_wrong_teach_nothing(run: Run) -> None:
    figures = run(judge=lambda _ids: 1.0)
    assert figures["changed_share"] == 0
    assert figures["groups_with_signal"] == 0


@pytest.mark.parametrize(("asked", "k"), [(3, 4), (1, 2), (5, 2)])
def test_a_step_has_the_prompts_that_it_was_asked_for(
    asked: int, k: int, run: Run, prompts: list[dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also an odd number, and more than there are questions."""
    seen: list[int] = []
    sampler = calibrate.OwnSampler.__call__

    def counted(self: calibrate.OwnSampler, ids: list[list[int]], count: int) -> Any:
        assert all(ids[start : start + count] == [ids[start]] * count for start in range(0, len(ids), count))
        seen.append(len(ids))
        return sampler(self, ids, count)

    monkeypatch.setattr(calibrate.OwnSampler, "__call__", counted)
    assert run(prompts=asked, k=k, asked=prompts[:4])["steps"] == 2
    assert seen == [asked * k] * 2


def test_ranks_take_whole_groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_spec: dict[str, str]) -> None:
    from prefkit.models.load import ModelSpec

    for prompts, processes in ((2, 4), (3, 2), (8, 2), (8, 3), (5, 1)):
        monkeypatch.setattr(calibrate, "ranks", lambda processes=processes: processes)
        monkeypatch.setattr(training, "ranks", lambda: 1)
        settings = {**SETTINGS, "prompts": prompts}
        found = calibrate.grpo_arguments(tmp_path, ModelSpec(**tiny_spec), settings, 0)
        rows = found["per_device_train_batch_size"] * found["gradient_accumulation_steps"]
        assert found["per_device_train_batch_size"] % SETTINGS["k"] == 0
        assert rows * processes == -(-prompts // processes) * processes * SETTINGS["k"]


def test_a_forward_holds_whole_groups_of_one_database(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed together shares the schema, and the answers of a prompt share the prompt."""
    from prefkit.train.trl_seams import GroupTrainer

    asked = [
        {"name": f"q{number}", "messages": [{"role": "user", "content": f"{'ab'[number % 2]} {number}"}], "database": "ab"[number % 2]}
        for number in range(12)
    ]
    seen: list[list[str]] = []
    compute = GroupTrainer.compute_loss

    def watched(self: GroupTrainer, model: Any, inputs: dict, *rest: Any, **named: Any) -> Any:
        tokenizer: Any = self.processing_class
        seen.append(tokenizer.batch_decode(inputs["prompt_ids"], skip_special_tokens=True))
        return compute(self, model, inputs, *rest, **named)

    monkeypatch.setattr(GroupTrainer, "compute_loss", watched)
    run(asked=asked, steps=2, prompts=6, k=4)
    assert [len(texts) for texts in seen] == [calibrate.GROUPS * 4] * 4
    for texts in seen:
        groups = [set(texts[start : start + 4]) for start in range(0, len(texts), 4)]
        assert all(len(group) == 1 for group in groups), "the answers of one prompt stay together"
        assert len({text.split("user\n")[1][0] for group in groups for text in group}) == 1, "and so do the prompts of one database"
    assert len({text for texts in seen for text in texts}) == 12, "two steps of six ask all twelve"


def test_answers_come_from_the_policy_as_it_is_now(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampler's log-probabilities are those of the training model, before and after a step."""
    import torch

    worst = []
    sampler = calibrate.OwnSampler.__call__

    def checked(self: calibrate.OwnSampler, ids: list[list[int]], count: int) -> Any:
        answers, logprobs = sampler(self, ids, count)
        for prompt, answer, found in zip(ids, answers, logprobs, strict=True):
            with torch.no_grad():
                logits: torch.Tensor = self.policy(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
            expected = logits.log_softmax(-1).gather(1, torch.tensor(answer)[:, None])[:, 0]
            worst.append(float((expected - torch.tensor(found)).abs().max()))
        return answers, logprobs

    monkeypatch.setattr(calibrate.OwnSampler, "__call__", checked)
    run(steps=3, learning_rate=1e-2)
    assert len(worst) == 3 * 2 * 4
    assert max(worst) < 1e-3


def test_a_4_bit_base_is_calibrated(run: Run) -> None:
    figures = run(spec={"quantization": "nf4", "dtype": "bfloat16"}, learning_rate=1e-5)
    assert figures["start_difference"] < 1e-3
    assert figures["changed_share"] > 0.9


def test_the_reward_is_the_verdicts_score_and_none_where_there_is_none(tmp_path: Path) -> None:
    database = tmp_path / "shop.sqlite"
    connection = sqlite3.connect(database)
    connection.executescript("CREATE TABLE item (id INTEGER, name TEXT); INSERT INTO item VALUES (1, 'pear'), (2, 'fig');")
    connection.close()
    asked = [
        {"name": "good", "golds": ["SELECT name FROM item WHERE id = 1"], "databases": [str(database)]},
        {"name": "broken gold", "golds": ["SELECT no_such_column FROM item"], "databases": [str(database)]},
    ]
    answers = [
        ("good", "SELECT name FROM item LIMIT 1"),
        ("good", "SELECT name FROM item"),
        ("broken gold", "SELECT name FROM item"),
        ("good", "no"),
    ]
    with calibrate.Reward(asked, {"timeout_s": 2.0}, None) as reward:
        completions = [[{"role": "assistant", "content": text}] for _, text in answers]
        scores = reward(prompts=None, completions=completions, name=[name for name, _ in answers], trainer_state=SimpleNamespace())
        assert scores == [1.0, 0.0, None, 0.0]


def test_rewards_of_executed_verdicts_and_opinions_are_not_mixed_unless_the_recipe_says_so(tmp_path: Path) -> None:
    from prefkit.verify.scheduler import Scheduler
    from prefkit.verify.sql_verifier import SqlVerifier

    class Half(SqlVerifier):
        """As if the verdicts on some answers were a model's."""

        def trust(self, check: Any) -> str:
            return "model" if "opinion" in check.answer else "executed"

    database = tmp_path / "shop.sqlite"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE item (id INTEGER)")
    asked = [{"name": "q", "golds": ["SELECT 1"], "databases": [str(database)]}]
    executed, opinion = ([{"role": "assistant", "content": f"SELECT 1 AS {word}"}] for word in ("executed", "opinion"))

    def rewards(reward: calibrate.Reward, *answers: Any) -> list[float | None]:
        return reward(prompts=None, completions=list(answers), name=["q"] * len(answers), trainer_state=SimpleNamespace())

    for mix in (False, True):
        with calibrate.Reward(asked, {"timeout_s": 2.0, "mix": mix}, None) as reward:
            reward.scheduler.close()
            reward.scheduler = Scheduler(workers=1, verifiers=[Half()])
            assert rewards(reward, opinion) == [1.0]  # opinions alone are one kind
            if mix:
                assert rewards(reward, executed, opinion) == [1.0, 1.0]
            else:
                with pytest.raises(DataError, match=r"the rewards of calibration: .*judge\.mix"):
                    rewards(reward, executed)  # in a later step
