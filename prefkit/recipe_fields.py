"""The settings of a recipe: names, types, bounds, defaults, and what each is for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Profile = Literal["cpu", "gpu", "smoke"]
PROFILES: tuple[Profile, ...] = ("cpu", "gpu", "smoke")

Questions = Annotated[int | None, Field(ge=1, description="how many questions, or null for all")]
Temperature = Annotated[float, Field(gt=0, le=5, description="sampling temperature")]
LearningRate = Annotated[float, Field(ge=0, le=1, description="peak learning rate; 0 learns nothing")]
Beta = Annotated[float, Field(ge=0, le=10, description="weight of the distance to the reference policy")]


class Group(BaseModel):
    """A group of settings: no other keys, no conversions, not changed once made."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=True, allow_inf_nan=False)


class Task(Group):
    """What is asked, and over which data."""

    kind: Literal["sql"] = Field(default="sql", description="task family")
    dataset: str = Field(default="sql-gen", description="a shipped dataset; not used where database and questions are given")
    database: str | list[str] | None = Field(default=None, description="your SQLite file, or several with one schema and other rows")
    questions: str | None = Field(default=None, description="your questions with their SQL, .csv or .jsonl")
    augmented: str | None = Field(default=None, description="questions that `prefkit augment` made from your database; they only train")
    ingested: str | list[str] | None = Field(
        default=None, description="a folder that `prefkit ingest` wrote, or several; its questions train. --with sets it"
    )
    schema_values: bool = Field(default=True, description="whether the prompt shows example values of each column")
    timeout_s: float = Field(default=2.0, gt=0, le=600, description="time limit of one query in seconds")

    @property
    def ingested_folders(self) -> list[str]:
        """The ingested folders as a list."""
        return [self.ingested] if isinstance(self.ingested, str) else list(self.ingested or [])

    @model_validator(mode="after")
    def _own_data_is_whole(self) -> Task:
        if self.database == [] or (isinstance(self.database, list) and "" in self.database) or self.database == "":
            raise ValueError("task.database names no file; give a file, a list of files, or null for the shipped dataset.")
        if "" in self.ingested_folders:
            raise ValueError("task.ingested names no folder; give one that `prefkit ingest` wrote, or null.")
        if (self.database is None) != (self.questions is None):
            given, missing = ("database", "questions") if self.questions is None else ("questions", "database")
            raise ValueError(f"task.{given} is given but task.{missing} is not; your own data needs both: add --set task.{missing}=FILE")
        if self.augmented is not None and self.questions is None:
            raise ValueError("task.augmented is given but task.questions is not; augmented questions train beside questions of your own.")
        return self


class Lora(Group):
    """The adapter that is trained."""

    rank: int = Field(default=16, ge=1, le=1024, description="rank of the adapter matrices")
    alpha: int = Field(default=32, ge=1, le=4096, description="scale of the adapter: alpha / rank")
    targets: str | list[str] = Field(
        default="all-linear", description="the layers that get an adapter: all-linear, or a list of their names"
    )


class Model(Group):
    """The model that learns."""

    name: str = Field(default="embedded", min_length=1, description="embedded, a folder, or a Hugging Face name")
    quantization: Literal["none", "nf4", "int8"] = Field(default="none", description="how the frozen weights are stored")
    dtype: Literal["auto", "bfloat16", "float32"] = Field(default="auto", description="number format of the weights")
    lora: Lora = Lora()
    adapter: str | None = Field(default=None, min_length=1, description="the adapter that training goes on from. --from RUN sets it")


class Limits(Group):
    """How many questions each stage takes; null takes all."""

    readiness: Questions = 40
    references: Questions = 300
    own: Questions = 300
    calibrate: Questions = 200
    validation: Questions = 60
    test: Questions = 120
    unseen: Questions = 80


class Rollouts(Group):
    """How answers are sampled."""

    temperature: Temperature = 1.0
    max_new_tokens: int = Field(default=64, ge=1, le=8192, description="longest answer in tokens")
    branches: int = Field(default=256, ge=1, le=65_536, description="answers that one process decodes together, at most")


class Corrections(Group):
    """Further turns: a wrong answer, what the verifier said of it, and the model's next answer."""

    questions: Questions = 64
    turns: int = Field(default=2, ge=0, le=16, description="turns after a wrong answer, at most; 0 leaves corrections out")
    tries: int = Field(default=2, ge=1, le=256, description="answers of each turn")
    train: bool = Field(default=True, description="whether repairs become training rows beside the round's pairs")
    references: bool = Field(
        default=False, description="also in rounds on references; there the gold closes what no repair solved, and is a training row"
    )


class Pairs(Group):
    """How right and wrong answers become training pairs."""

    strategy: Literal["max_margin", "nearest", "random", "all_capped"] = Field(
        default="nearest", description="which right answer meets which wrong"
    )
    per_prompt: int = Field(default=2, ge=1, le=256, description="most pairs of one question")
    mutations: int = Field(
        default=0, ge=0, le=64, description="most changed right answers found wrong, where own wrong ones do not fill per_prompt; 0: none"
    )
    fallback: list[Literal["reference", "history"]] = Field(
        default=[], description="rounds on own answers: what is chosen where no own answer is right, in this order; empty: nothing"
    )


class Round(Group):
    """One round of the warm start (DPO with an NLL term)."""

    source: Literal["references", "own"] = Field(description="what is put over own wrong answers: the gold, or own right answers")
    k: int = Field(default=8, ge=1, le=256, description="answers sampled for each question before the round")
    sampled: Questions = Field(
        default=None, ge=1, description="references: questions that the model answers first; the rest teach by likelihood alone. null: all"
    )
    epochs: int = Field(default=1, ge=1, le=100, description="passes over the pairs")
    learning_rate: LearningRate = 5e-4
    nll: float = Field(default=1.0, ge=0, le=100, description="weight of the likelihood of the chosen answer")
    contrast: float = Field(default=0.15, ge=0, le=100, description="weight of the preference of chosen over rejected")
    beta: Beta = 0.1
    batch: int = Field(default=16, ge=1, le=4096, description="pairs of one optimizer step")
    warmup_ratio: float = Field(default=0.1, ge=0, lt=1, description="share of the steps in which the learning rate rises")
    scheduler: Literal["linear", "cosine", "constant", "constant_with_warmup"] = Field(
        default="linear", description="course of the learning rate"
    )

    @model_validator(mode="after")
    def _something_is_learned(self) -> Round:
        if self.nll == 0 and self.contrast == 0:
            raise ValueError("nll and contrast are both 0, so this round has no loss; give one of them a weight.")
        return self


class WarmStart(Group):
    """Learning from pairs before any online step."""

    rounds: list[Round] = Field(
        default=[Round(source="references", k=1, epochs=3, learning_rate=1e-3), Round(source="own")],
        min_length=1,
        description="the rounds in order",
    )
    rehearsal: float = Field(
        default=0.25,
        ge=0,
        le=1,
        description="share of the old references that a run with both --from and --with repeats beside the new ones",
    )


class Calibrate(Group):
    """Online calibration (GRPO) from the warm start's adapter, which is also its reference."""

    steps: int = Field(default=12, ge=0, le=100_000, description="optimizer steps; 0 leaves calibration out")
    prompts: int = Field(default=8, ge=1, le=4096, description="questions of one step")
    k: int = Field(default=8, ge=2, le=256, description="answers for each question")
    learning_rate: LearningRate = 1e-4
    beta: Beta = 0.05
    temperature: Temperature = 1.0
    loss_type: Literal["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo"] = Field(
        default="dapo", description="TRL's GRPO loss"
    )
    scale_rewards: Literal["group", "batch", "none"] = Field(default="none", description="what rewards are divided by")
    negatives: float = Field(default=1.0, ge=0, le=1, description="weight of answers below their group's mean; 1 is plain GRPO")
    save_every: int = Field(default=4, ge=1, le=100_000, description="steps between two checkpoints")


class Select(Group):
    """Which checkpoint becomes the policy; chosen on validation, never on test."""

    candidates: int = Field(default=3, ge=1, le=100, description="checkpoints that are compared")
    metric: Literal["greedy", "samples", "both"] = Field(default="both", description="what they are compared by")
    k: int = Field(default=8, ge=1, le=256, description="sampled answers for each validation question")

    @property
    def greedy(self) -> bool:
        """Whether the metric needs the greedy answer."""
        return self.metric != "samples"

    @property
    def samples(self) -> int:
        """How many sampled answers to a question the metric needs."""
        return 0 if self.metric == "greedy" else self.k


class Evaluate(Group):
    """How base, warm start and calibrated model are measured. Greedy answers are always measured too."""

    k: int = Field(default=4, ge=1, le=256, description="sampled answers for each question")
    temperature: Temperature = 1.0


class Judge(Group):
    """What a model's opinions (the judge's) may be put together with."""

    mix: bool = Field(
        default=False, description="whether one figure or training row may rest on executed verdicts and on a model's opinions"
    )


class Track(Group):
    """Trackers beside the run's own metrics."""

    wandb: Literal["auto", "off"] = Field(
        default="auto", description="auto: online with a key and a network, else offline; off: no tracker"
    )


class Expected(Group):
    """What a run takes, as measured; said by --dry-run."""

    memory_gb: float = Field(gt=0, description="peak memory in GB (of the GPU where there is one)")
    minutes: float = Field(gt=0, description="minutes for the whole loop")
