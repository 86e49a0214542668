"""Warm start on a tiny model, in one process: it learns, it does not where it must not, and it goes on where it was killed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prefkit.errors import DataError, GuardError
from prefkit.train import warm_start
from prefkit.train.checkpoints import latest_checkpoint, whole_checkpoints

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

LORA = {"rank": 8, "alpha": 16, "targets": "all-linear"}
SETTINGS = {
    "epochs": 1, "learning_rate": 1e-3, "nll": 1.0, "contrast": 0.15, "beta": 0.1, "batch": 4, "warmup_ratio": 0.0, "scheduler": "constant",
    "save_every": 25,
}  # fmt: skip
QUESTIONS = ["How many?", "Which city?", "Who is oldest?", "What is the sum?"]
ANSWERS = ["SELECT COUNT(*) FROM a", "SELECT city FROM b", "SELECT name FROM c ORDER BY age DESC LIMIT 1", "SELECT SUM(x) FROM d"]

Run = Callable[..., dict[str, Any]]
Reports = Callable[..., Any]


@pytest.fixture
def write_pairs(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> Callable[[Collection[int]], Path]:
    """Write four pairs over two databases, each question's own answer over the next one's; those of `alone` have no rejected answer."""
    import pyarrow
    import pyarrow.parquet

    def write(alone: Collection[int]) -> Path:
        rows = []
        for number, question in enumerate(QUESTIONS):
            messages = [{"role": "system", "content": "Answer."}, {"role": "user", "content": question}]
            chosen, rejected = ([*tokenizer.encode(ANSWERS[(number + shift) % 4]), tokenizer.eos_token_id] for shift in (0, 1))
            prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
            ids = {"prompt_ids": prompt, "chosen_ids": chosen, "rejected_ids": None if number in alone else rejected}
            rows.append({"id": str(number), **ids, "database": "ab"[number % 2]})
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "pairs.parquet")
        return tmp_path / "pairs.parquet"

    return write


@pytest.fixture
def pairs(write_pairs: Callable[[Collection[int]], Path]) -> Path:
    return write_pairs(())


@pytest.fixture
def run(tiny_spec: dict[str, str], pairs: Path, tmp_path: Path, reports: Reports) -> Run:
    """Train into tmp_path/`into` with settings changed by name."""

    def run(into: str = "out", report: Any = None, adapter: Path | None = None, spec: dict | None = None, **changes: Any) -> dict[str, Any]:
        return warm_start.run(
            model={**tiny_spec, **(spec or {})}, lora=LORA, adapter=str(adapter) if adapter else None, pairs=str(pairs),
            output=str(tmp_path / into), settings={**SETTINGS, **changes}, seed=5, report=report or reports(),
        )  # fmt: skip

    return run


def test_it_learns_four_pairs_by_heart(run: Run, reports: Reports, tmp_path: Path) -> None:
    report = reports()
    figures = run(report=report, epochs=30, learning_rate=2e-2)
    assert (figures["rows"], figures["steps"]) == (4, 30)
    assert figures["loss_last"] < 0.6 * figures["loss_first"]
    accuracy = report.values("mean_token_accuracy")
    assert accuracy[0] < 0.1
    assert accuracy[-1] > 0.8
    assert figures["changed_share"] > 0.99
    assert figures["shared_prefix"] == "yes"
    margins = report.values("rewards/margins")
    assert margins[0] == pytest.approx(0, abs=1e-5), "the reference is the start"
    assert margins[-1] > 0.5
    assert report.steps == list(range(1, 31))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["adapter"], "nothing is left but the adapter"
    assert not whole_checkpoints(tmp_path / "out")


@pytest.mark.parametrize("scheduler", ["linear", "cosine", "constant", "constant_with_warmup"])
@pytest.mark.parametrize("epochs", [1, 2, 7])
def test_every_step_teaches_also_the_only_one(scheduler: str, epochs: int, run: Run, reports: Reports) -> None:
    """transformers begins a warm-up with rate 0, so a round of one step had none."""
    report = reports()
    figures = run(report=report, scheduler=scheduler, epochs=epochs, warmup_ratio=0.5, learning_rate=1e-2)
    rates = report.values("learning_rate")
    assert figures["steps"] == len(rates) == epochs
    assert min(rates) > 0
    assert max(rates) == pytest.approx(1e-2)
    assert figures["changed_share"] > 0.2


def test_learning_rate_0_changes_nothing(run: Run, reports: Reports, tmp_path: Path, weights: Callable) -> None:
    report = reports()
    figures = run(report=report, learning_rate=0.0, epochs=3)
    assert figures["changed_share"] == 0
    assert figures["loss_last"] == pytest.approx(figures["loss_first"], abs=1e-5)
    assert all(not value.any() for name, value in weights(tmp_path / "out/adapter").items() if "lora_B" in name)


def test_rows_without_a_rejected_answer_teach_by_likelihood_alone(
    write_pairs: Callable[[Collection[int]], Path], run: Run, reports: Reports, tmp_path: Path, weights: Callable, difference: Callable
) -> None:
    """Three steps from an adapter that is not zero; the column of rejected answers holds nothing but nulls, so it has no type."""

    def train(name: str, alone: Collection[int], contrast: float) -> tuple[list[float], dict]:
        write_pairs(alone)
        report = reports()
        run(name, report=report, adapter=tmp_path / "start/adapter", contrast=contrast, epochs=3)
        return report.values("grad_norm"), weights(tmp_path / name / "adapter")

    run("start", learning_rate=1e-2)
    norms, adapter = train("alone", range(4), SETTINGS["contrast"])
    likelihood_norms, likelihood = train("likelihood", range(4), 0.0)
    paired_norms, paired = train("paired", (), SETTINGS["contrast"])
    assert norms == pytest.approx(likelihood_norms, rel=1e-4)
    assert difference(adapter, likelihood) < 1e-4
    assert paired_norms != pytest.approx(likelihood_norms, rel=1e-3)
    assert difference(paired, likelihood) > 1e-3, "contrast would be seen"


def test_preference_is_measured_on_rows_with_two_sides(write_pairs: Callable[[Collection[int]], Path], run: Run, reports: Reports) -> None:
    write_pairs((0, 3))
    report = reports()
    run(report=report, epochs=20, learning_rate=2e-2, batch=2)
    accuracy = report.values("rewards/accuracies")
    assert accuracy[-1] == 1.0
    assert max(accuracy) <= 1.0
    assert not report.values("rewards/chosen")


def test_with_no_likelihood_only_rows_with_two_sides_are_trained_on(write_pairs: Callable[[Collection[int]], Path], run: Run) -> None:
    write_pairs((0, 3))
    assert run(nll=0.0, contrast=1.0)["rows"] == 2
    write_pairs(range(4))
    with pytest.raises(DataError, match="nll"):
        run("none", nll=0.0, contrast=1.0)


def test_a_row_without_a_rejected_answer_gets_the_chosen_one_there(write_pairs: Callable[[Collection[int]], Path], tmp_path: Path) -> None:
    whole, some = (warm_start.read_pairs(str(write_pairs(alone)), tmp_path / "rows").to_list() for alone in ((), (1, 2)))
    assert some == [{**row, "rejected_ids": row["chosen_ids"]} if number in (1, 2) else row for number, row in enumerate(whole)]
    assert all(row["rejected_ids"] != row["chosen_ids"] for row in whole)


@pytest.mark.parametrize(
    ("batch", "steps"),
    [(1, 4), (2, 2), (3, 2), (4, 1), (64, 1)],
)
def test_a_step_has_the_pairs_that_it_was_asked_for(batch: int, steps: int, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_start, "MICRO_BATCH", 2)
    assert run(batch=batch)["steps"] == steps


def test_micro_batches_do_not_change_the_result(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: Callable, difference: Callable
) -> None:
    """The NLL's mean is over the tokens of a micro-batch, so rows of one length are compared: contrast alone."""
    for micro in (4, 2):
        monkeypatch.setattr(warm_start, "MICRO_BATCH", micro)
        run(f"micro-{micro}", nll=0.0, contrast=1.0, epochs=2)
    assert difference(weights(tmp_path / "micro-4/adapter"), weights(tmp_path / "micro-2/adapter")) < 1e-4


def test_the_next_round_starts_from_the_adapter_and_holds_to_it(run: Run, reports: Reports, tmp_path: Path, weights: Callable) -> None:
    run("first", learning_rate=1e-2)
    report = reports()
    figures = run("second", report=report, adapter=tmp_path / "first/adapter", learning_rate=0.0)
    assert report.values("rewards/margins")[0] == pytest.approx(0, abs=1e-5)
    assert figures["changed_share"] == 0
    first, second = (weights(tmp_path / name / "adapter") for name in ("first", "second"))
    assert all((first[name] == second[name]).all() for name in first)
    assert run("third", adapter=tmp_path / "first/adapter")["changed_share"] > 0.99


def test_a_start_that_is_not_the_adapter_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefkit.models import load

    run("first", learning_rate=1e-2)
    fresh = lambda model, _folder, trainable: load.new_adapter(model, load.LoraSpec(8, 16), 0)  # noqa: E731
    monkeypatch.setattr(load, "load_adapter", fresh)
    with pytest.raises(GuardError, match="the policy does not start from"):
        run("second", adapter=tmp_path / "first/adapter")


@pytest.mark.parametrize("stop", [3, 5])
def test_killed_and_resumed_ends_with_the_same_adapter(
    stop: int, run: Run, reports: Reports, killed: type[BaseException], tmp_path: Path, weights: Callable, difference: Callable
) -> None:
    """Six steps in three epochs with a checkpoint every two; killed while a step is reported."""
    changes = {"epochs": 3, "batch": 2, "learning_rate": 1e-2, "scheduler": "linear", "save_every": 2}
    whole = reports()
    run("whole", report=whole, **changes)
    assert whole.steps == [1, 2, 3, 4, 5, 6]

    with pytest.raises(killed):
        run("killed", report=reports(stop=stop), **changes)
    folder = tmp_path / "killed"
    assert not (folder / "adapter").exists()
    assert [step for step, _ in whole_checkpoints(folder)] == [stop - 1]
    torn = folder / "checkpoints" / "checkpoint-6"
    torn.mkdir()
    (torn / "adapter_model.safetensors").write_text("half")

    resumed = reports()
    run("killed", report=resumed, **changes)
    assert resumed.steps == list(range(stop, 7))
    assert resumed.values("loss") == pytest.approx(whole.values("loss")[stop - 1 :], abs=1e-5)
    assert difference(weights(tmp_path / "whole/adapter"), weights(folder / "adapter")) < 1e-5


def test_torn_checkpoints_are_removed_and_whole_ones_kept(tmp_path: Path) -> None:
    files = ("adapter_model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json")
    for step, count in ((4, 4), (10, 4), (12, 3)):
        folder = tmp_path / "checkpoints" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        for name in files[:count]:
            (folder / name).write_text("")
    (tmp_path / "checkpoints" / "tmp-checkpoint-14").mkdir()
    assert [step for step, _ in whole_checkpoints(tmp_path)] == [4, 10]
    assert latest_checkpoint(tmp_path) == str(tmp_path / "checkpoints/checkpoint-10")
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["checkpoint-10", "checkpoint-4"]
    assert latest_checkpoint(tmp_path / "nothing") is None


def test_a_4_bit_base_trains_an_adapter_in_float32_from_its_exact_weights(
    run: Run, start_adapter: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, weights: Callable
) -> None:
    """TRL casts adapters of quantised models to bfloat16. With the guard nothing of them is lost, and a small step changes all of them."""
    from prefkit.train import guard

    spec = {"quantization": "nf4", "dtype": "bfloat16"}
    still = run("still", spec=spec, adapter=start_adapter, learning_rate=0.0)
    assert still["upcast"] == 2 * 2 * 7
    assert still["changed_share"] == 0
    start, kept = weights(start_adapter), weights(tmp_path / "still/adapter")
    assert all((start[name] == kept[name]).all() for name in start)
    assert run("small", spec=spec, adapter=start_adapter, learning_rate=1e-6, epochs=3)["changed_share"] > 0.95

    monkeypatch.setattr(guard, "upcast_trainable", lambda *_: 0)
    with pytest.raises(GuardError, match="the policy does not start from"):
        run("unguarded", spec=spec, adapter=start_adapter)


@pytest.mark.parametrize("epoch", [1, 2])
def test_two_processes_go_on_in_the_middle_of_an_epoch(
    epoch: int, tiny_spec: dict[str, str], pairs: Path, tmp_path: Path, weights: Callable, difference: Callable
) -> None:
    """Two steps an epoch; stopped in the second step of the one that `epoch` numbers from 0."""
    from prefkit.scale.workers import Workers

    last = 2 * epoch + 1
    settings = {**SETTINGS, "epochs": 3, "batch": 2, "learning_rate": 1e-2, "save_every": 1}

    def train(into: str, stop: int = 0) -> None:
        def report(event: dict) -> None:
            if stop and event["progress"] >= stop:
                raise KeyboardInterrupt

        arguments = {"model": tiny_spec, "lora": LORA, "adapter": None, "pairs": str(pairs), "output": str(tmp_path / into)}
        with Workers(tmp_path / "logs", 2) as workers:
            workers.run_all("warm_start", {**arguments, "settings": settings, "seed": 5}, report)

    train("whole")
    with pytest.raises(KeyboardInterrupt):
        train("killed", stop=last + 1)
    kept = [step for step, _ in whole_checkpoints(tmp_path / "killed")]
    assert kept and kept[-1] == last
    train("killed")
    assert difference(weights(tmp_path / "whole/adapter"), weights(tmp_path / "killed/adapter")) < 1e-5
