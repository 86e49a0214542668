"""A whole run over a small shop in seconds: every stage is prefkit's own and every query is executed; only the model is a stand-in."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
END = 2
SCHEMA = """CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, kind TEXT, price REAL, stock INTEGER);
CREATE TABLE sale (id INTEGER PRIMARY KEY, item_id INTEGER REFERENCES item, day TEXT, pieces INTEGER);"""
ROWS = (
    """INSERT INTO item VALUES (1, 'pear', 'fruit', 2.0, 7), (2, 'fig', 'fruit', 3.5, 2), (3, 'leek', 'green', 1.0, 9),
         (4, 'kale', 'green', 4.0, 1), (5, 'plum', 'fruit', 5.5, 4), (6, 'chard', 'green', 2.5, 6);
       INSERT INTO sale VALUES (1, 1, '2025-01-03', 4), (2, 1, '2025-01-09', 1), (3, 3, '2025-02-01', 6), (4, 5, '2025-02-07', 2);""",
    """INSERT INTO item VALUES (1, 'plum', 'fruit', 5.0, 3), (2, 'leek', 'green', 1.5, 8), (3, 'chard', 'green', 4.5, 2),
         (4, 'lime', 'fruit', 0.5, 9), (5, 'okra', 'green', 3.0, 5);
       INSERT INTO sale VALUES (1, 2, '2025-03-03', 3), (2, 4, '2025-03-04', 9), (3, 2, '2025-03-09', 5);""",
)
# Pieces of which questions are made, so that no two have the same words or the same query.
WHAT = {
    "names of the items": "SELECT name FROM item",
    "prices of the items": "SELECT price FROM item",
    "number of items": "SELECT COUNT(*) FROM item",
    "mean price of the items": "SELECT AVG(price) FROM item",
    "names and stock of the items": "SELECT name, stock FROM item",
    "whole stock of the items": "SELECT SUM(stock) FROM item",
}
WHICH = {
    "that are fruit": "WHERE kind = 'fruit'",
    "that are green": "WHERE kind = 'green'",
    "dearer than two": "WHERE price > 2",
    "with more than three in stock": "WHERE stock > 3",
    "that were ever sold": "WHERE id IN (SELECT item_id FROM sale)",
    "cheaper than four": "WHERE price < 4",
}
SPLITS = {"train": 20, "validation": 4, "test": 6, "unseen": 4}
OVERRIDES = [
    "track.wandb=off", "limits.readiness=2", "limits.references=6", "limits.own=6", "corrections.questions=6", "corrections.turns=2",
    "pairs.mutations=2", "pairs.per_prompt=3", "limits.calibrate=4",
    "limits.validation=3", "limits.test=5", "limits.unseen=3", "warm_start.rounds.0.sampled=4", "warm_start.rounds.0.k=2",
    "warm_start.rounds.1.k=6", "select.metric=both",
]  # fmt: skip

NEXT = ["corrections.references=true", "corrections.tries=1", "pairs.fallback=[history, reference]", "warm_start.rounds.1.k=2"]
"""Settings of a run that goes on from the first: golds close what is not repaired, and stand in for right answers."""


def questions() -> dict[str, str]:
    """Question -> gold."""
    return {f"{what} {which}": f"{WHAT[what]} {WHICH[which]}" for which in WHICH for what in WHAT}


def write_data(folder: Path) -> list[str]:
    """Write two data instances and the questions; returns the overrides that name them."""
    paths = []
    for number, rows in enumerate(ROWS):
        paths.append(folder / f"shop-{number}.sqlite")
        with sqlite3.connect(paths[-1]) as connection:
            connection.executescript(SCHEMA + rows)
        connection.close()
    (folder / "shop.jsonl").write_text("".join(json.dumps(line) + "\n" for line in _lines()))
    return [f"task.database=[{', '.join(str(path) for path in paths)}]", f"task.questions={folder / 'shop.jsonl'}"]


def _lines() -> list[Row]:
    splits = [split for split, count in SPLITS.items() for _ in range(count)]
    asked = list(questions().items())
    random.Random(4).shuffle(asked)
    return [{"split": split, "question": question, "sql": gold} for split, (question, gold) in zip(splits, asked, strict=False)]


def make(folder: Path, patch: Any) -> Path:
    """Run every stage over the small shop and return the run folder. patch: pytest's MonkeyPatch."""
    from prefkit import pipeline, recipe
    from prefkit.progress import quiet

    patch.setattr(pipeline, "Workers", StandIn)
    patch.setenv("PREFKIT_CACHE", str(folder / "cache"))
    chosen = recipe.load("sql-gen", profile="smoke", overrides=[*write_data(folder), *OVERRIDES])
    pipeline.run(chosen, folder / "run", quiet())
    return folder / "run"


def log() -> list[Row]:
    """Lines of a production log: new questions with corrections, and a question that the run trained on with a retry that is right."""
    known, gold = next((line["question"], line["sql"]) for line in _lines() if line["split"] == "train")
    mail = "SELECT 'ann' || '@' || 'example.com', name FROM item"  # an address that only its result has
    return [
        {"question": "Cheapest thing?", "answer": "SELECT name FROM item", "correction": "SELECT name FROM item ORDER BY price LIMIT 1"},
        {"question": "Pieces sold of each?", "answer": mail, "correction": "SELECT item_id, SUM(pieces) FROM sale GROUP BY item_id"},
        {"question": known, "answer": "SELECT 'none'", "retry": gold, "thumbs": "down"},
        {"question": known, "answer": "SELECT 'nothing at all'", "retry": "SELECT 'nothing'", "thumbs": "down"},
    ]


def make_next(run: Path, folder: Path, patch: Any) -> Path:
    """Ingest the log, and make a run that goes on from `run` with it. Returns the new run folder."""
    from prefkit import lineage, pipeline, recipe
    from prefkit.context import load_task
    from prefkit.data.column_map import ColumnMap
    from prefkit.data.ingest import Log, ingest
    from prefkit.progress import quiet
    from prefkit.verify.scheduler import Scheduler

    patch.setattr(pipeline, "Workers", StandIn)
    patch.setenv("PREFKIT_CACHE", str(run.parent / "cache"))
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in log()))
    with Scheduler(workers=1) as scheduler:
        ingest(Log.at(path), load_task(recipe.load(run)), ColumnMap(), folder / "new-data", scheduler, quiet())
    chosen = recipe.load(run, overrides=[*lineage.overrides(run, [folder / "new-data"]), *NEXT])
    pipeline.run(chosen, folder / "next", quiet())
    return folder / "next"


def encode(text: str) -> list[int]:
    """Token ids of a text: one a character, none of them the end token."""
    return [10 + ord(character) for character in text]


class StandIn:
    """Stands for the model processes. How often it is right depends on the adapter; what it says, on the name of the prompt alone."""

    processes = 1

    def __init__(self, log: Path, processes: int | None = None) -> None:
        self.golds = questions()

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def map(self, job: str, batches: Iterable[Row]) -> Iterator[tuple[int, Any]]:
        for number, batch in enumerate(batches):
            yield number, self._tokenize(batch) if job == "tokenize" else [self._answer(batch, prompt) for prompt in batch["prompts"]]

    def run_all(self, job: str, arguments: Row, report: Callable[[Row], None]) -> Row:
        folder, seed = Path(arguments["output"]), random.Random(f"{job}/{arguments['output'][-12:]}")
        if job == "warm_start":
            return self._warm_start(arguments, folder, seed, report)
        settings = arguments["settings"]
        for step in range(1, settings["steps"] + 1):
            metrics = {"reward": seed.random(), "kl": seed.random() / 100, "loss": seed.random(), "frac_reward_zero_std": 0.25 * (step % 3)}
            report({"progress": step, "total": settings["steps"], "metrics": metrics})
            _write_adapter(folder / "candidates" / f"step-{step}", 0.7 + step / 100)
        _write_adapter(folder / "adapter", 0.7 + settings["steps"] / 100)
        return {
            "steps": settings["steps"], "tokens": 1234, "reward_first": None, "reward_last": None, "kl_last": None,
            "groups_with_signal": None, "changed_share": 0.99, "start_difference": 0.0, "shared_prefix": "yes",
        }  # fmt: skip

    def _warm_start(self, arguments: Row, folder: Path, seed: random.Random, report: Callable[[Row], None]) -> Row:
        import pyarrow.parquet as parquet

        rows = parquet.read_table(arguments["pairs"], columns=["prompt_ids", "chosen_ids", "rejected_ids"]).to_pylist()
        epochs = arguments["settings"]["epochs"]
        for step in range(1, 4):
            report({"progress": step, "total": 3, "metrics": {"loss": seed.random(), "rewards/accuracies": seed.random()}})
        _write_adapter(folder / "adapter", 0.6 if arguments["adapter"] else 0.45)
        tokens = sum(len(row["prompt_ids"]) + len(row["chosen_ids"]) + len(row["rejected_ids"] or []) for row in rows)
        return {
            "rows": len(rows), "steps": 3, "tokens": epochs * tokens, "loss_first": 0.0, "loss_last": 0.0, "changed_share": 1.0,
            "upcast": 0, "shared_prefix": "yes",
        }  # fmt: skip

    def _tokenize(self, batch: Row) -> list[Row]:
        return [
            {"prompt_ids": encode(row["messages"][-1]["content"]), "answer_ids": [[*encode(text), END] for text in row["answers"]]}
            for row in batch["rows"]
        ]

    def _answer(self, batch: Row, prompt: Row) -> Row:
        share = float((Path(batch["adapter"]) / "adapter_model.safetensors").read_text()) if batch["adapter"] else 0.2
        labels = ["greedy"] * batch["greedy"] + [str(k) for k in range(batch["k"])]
        texts = [self._text(prompt["messages"], random.Random(f"{share}/{prompt['name']}/{label}"), share) for label in labels]
        answers = [{"completion": text, "ids": [*encode(text), END], "logprobs": [-0.5] * (len(text) + 1), "ended": True} for text in texts]
        return {"name": prompt["name"], "prompt_ids": encode(prompt["messages"][-1]["content"]), "answers": answers}

    def _text(self, messages: list[Row], draw: random.Random, share: float) -> str:
        question = messages[1]["content"].rpartition("\n\n")[2]
        gold = self.golds.get(question, "SELECT name FROM item WHERE stock > 99")  # a question out of production: a guess
        if draw.random() < share:
            return draw.choice([gold, f"{gold} AND 1", f"Here it is:\n```sql\n{gold};\n```"])
        wrong = [
            gold.replace("FROM item", "FROM items"),
            gold.partition(" WHERE")[0],
            f"{gold} AND 0",
            "DELETE FROM item",
            "I do not know.",
        ]
        return draw.choice([*wrong, f"SELECT '{draw.randrange(99)}'"])


def _write_adapter(folder: Path, share: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({"r": 16, "lora_alpha": 32}))
    (folder / "adapter_model.safetensors").write_text(f"{share:.2f}")
