"""What a report is made of, read from the run folder's own files: nothing in the report comes from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prefkit.errors import RunError
from prefkit.runfolder import RunFolder

NEEDED = ("evaluation.json", "ledger.json", "evaluation/answers.parquet")
BEFORE = ("start", "history", "readiness")
IN_ROUNDS = ("rollouts", "corrections", "pairs", "warm_start")
AFTERWARDS = ("select-warm", "rollouts-calibrate", "calibrate", "select-final", "evaluate", "report")
STAGE_WORDS = {
    "start": "Adapter of the earlier run",
    "history": "Rows out of production",
    "readiness": "Readiness check",
    "select-warm": "Choice of the warm start",
    "rollouts-calibrate": "Choice of questions for calibration",
    "calibrate": "Calibration",
    "select-final": "Choice of the final model",
    "evaluate": "Evaluation",
    "report": "Report",
}


@dataclass(frozen=True, slots=True)
class Source:
    """The files of one run, as read."""

    name: str
    evaluation: dict[str, Any]
    ledger: dict[str, Any]
    answers: list[dict[str, Any]]
    metrics: list[dict[str, Any]]
    manifest: dict[str, Any]
    recipe_text: str
    trajectories: dict[int, list[dict[str, Any]]]

    @property
    def policies(self) -> list[str]:
        """The policies in training order: the first is the one before training, the last the one after it."""
        return list(self.evaluation["policies"])

    @property
    def splits(self) -> list[str]:
        """The evaluated splits; the first is the one the headline speaks of."""
        return list(self.evaluation["splits"])

    @property
    def trust(self) -> dict[str, int]:
        """How many scored answers rest on each kind of verdict; empty in evaluations that did not count it."""
        return dict(self.evaluation.get("trust") or {})

    @property
    def stages(self) -> dict[str, dict[str, Any]]:
        """The stages that are done, in the order in which the data flows. Without the report's own, so that it can be written again."""
        done = {name: entry for name, entry in self.manifest["stages"].items() if entry.get("status") == "done"}
        entries = {name: entry for name, entry in done.items() if name != "report"}
        return {name: entries[name] for name in sorted(entries, key=stage_order)}

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe as read from recipe.yaml; empty where it is missing or cannot be read."""
        import yaml

        try:
            recipe = yaml.safe_load(self.recipe_text)
        except yaml.YAMLError:
            return {}
        return recipe if isinstance(recipe, dict) else {}

    @property
    def seed(self) -> int:
        """The recipe's seed, or else the first that a stage records, or else 0."""
        recorded = [entry.get("seed") for entry in self.stages.values()]
        return next((seed for seed in (self.recipe.get("seed"), *recorded) if isinstance(seed, int)), 0)


def read(run: RunFolder) -> Source:
    """Read what a report needs; RunError where the run has not been evaluated yet."""
    for rel in NEEDED:
        if not run.file(rel).is_file():
            raise RunError(
                f"{run.path}: there is no {rel} yet, so there is nothing to report. Let the run end: the same command with --resume."
            )
    recipe = run.file("recipe.yaml")
    return Source(
        name=run.path.resolve().name,
        evaluation=run.read_json("evaluation.json"),
        ledger=run.read_json("ledger.json"),
        answers=run.read_rows("evaluation/answers.parquet"),
        metrics=run.read_metrics(),
        manifest=run.manifest,
        recipe_text=recipe.read_text(encoding="utf-8", errors="replace") if recipe.is_file() else "",
        trajectories=trajectories(run),
    )


def trajectories(run: RunFolder) -> dict[int, list[dict[str, Any]]]:
    """The corrections of each round that is done, without their conversations and tokens; those of an older prefkit have no control."""
    wanted = ("turns", "fresh")
    found = {}
    for stage, entry in run.manifest["stages"].items():
        kind, _, number = stage.rpartition("-")
        if kind == "corrections" and entry.get("status") == "done" and run.file(f"trajectories/round-{number}.parquet").is_file():
            rows = run.read_rows(f"trajectories/round-{number}.parquet")
            found[int(number)] = [{name: row[name] for name in wanted} for row in rows if row.get("fresh") is not None]
    return dict(sorted(found.items()))


def stage_order(stage: str) -> tuple[int, int, int, str]:
    """Sort key: readiness, the rounds (rollouts, corrections, pairs, warm start of each), selection to report, then unknown stages."""
    base, _, last = stage.rpartition("-")
    if last.isdigit() and base in IN_ROUNDS:
        return 1, int(last), IN_ROUNDS.index(base), stage
    if stage in AFTERWARDS:
        return 2, 0, AFTERWARDS.index(stage), stage
    return (0, 0, BEFORE.index(stage), stage) if stage in BEFORE else (3, 0, 0, stage)


def stage_words(stage: str) -> str:
    """A stage's name in plain words; a name that is no stage's is shown as it is."""
    base, _, last = stage.rpartition("-")
    if last.isdigit() and base in IN_ROUNDS:
        return f"{base.replace('_', ' ').capitalize()}, round {last}"
    # Candidates of a selection: a round of the warm start, a step of calibration.
    if last.isdigit() and base in ("round", "step"):
        return f"{base.capitalize()} {last}"
    return STAGE_WORDS.get(stage, stage)
