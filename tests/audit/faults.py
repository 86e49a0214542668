"""Faults to plant in a run. Each changes one thing and says where an audit must name it: (file, part of the row, part of what).

`forged` faults also make the manifest's hashes fit again, so that they can be found by execution or by comparison alone.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from prefkit.data import receipts
from prefkit.hashing import hash_bytes, hash_file
from prefkit.runfolder import RunFolder

Row = dict[str, Any]
Layer = Literal["rows", "figures", "alone"]
Expected = tuple[str, str, str]
ANSWERS, TURNS, MUTATED, CARD = "evaluation/answers.parquet", "trajectories/round-1.parquet", "rollouts/pairs-0.parquet", "pairs/README.md"


@dataclass(frozen=True)
class Fault:
    """plant: changes the run and says what must be named. layer: what it is planted beside. forged: whether the manifest is made to fit."""

    name: str
    plant: Callable[[RunFolder, random.Random], Expected]
    times: int = 1
    layer: Layer = "rows"
    forged: bool = True


def forge(run: RunFolder) -> None:
    """Make the manifest's hashes fit the files as they are."""
    manifest = run.manifest
    for entry in manifest["stages"].values():
        for rel in entry["files"]:
            path = run.file(rel)
            if path.is_file():
                entry["files"][rel] = {"size": path.stat().st_size, "sha256": hash_bytes(path)}
                entry["outputs"][rel] = hash_file(path)
    run.write_json("manifest.json", manifest)


def change(run: RunFolder, rel: str, draw: random.Random, wanted: Callable[[Row], Any], edit: Callable[[Row], Any]) -> Row:
    """Edit one row of a Parquet file, drawn among those that are `wanted`. Returns the row."""
    rows = run.read_rows(rel)
    row = draw.choice([row for row in rows if wanted(row)])
    edit(row)
    run.write_rows(rel, rows)
    return row


def flipped(row: Row) -> None:
    right = row["score"] != 1
    row.update(status="PASS" if right else "WRONG", score=float(right))


def any_row(_: Row) -> bool:
    return True


def scored(row: Row) -> bool:
    return row["score"] is not None


def stage(draw: random.Random) -> str:
    return draw.choice(["readiness", "rollouts-0", "rollouts-1", "corrections-1", "pairs-0", "rollouts-calibrate"])


def flipped_label(run: RunFolder, draw: random.Random) -> Expected:
    file = f"verdicts/{stage(draw)}.parquet"
    return file, change(run, file, draw, scored, flipped)["id"], "status"


def score_alone(run: RunFolder, draw: random.Random) -> Expected:
    file = f"verdicts/{stage(draw)}.parquet"
    row = change(run, file, draw, scored, lambda row: row.update(score=1.0 - row["score"]))
    return file, row["id"], "score"


def edited_feedback(run: RunFolder, draw: random.Random) -> Expected:
    def edit(row: Row) -> None:
        row["feedback"] += " The right query counts rows."

    file = "verdicts/rollouts-1.parquet"
    return file, change(run, file, draw, lambda row: row["feedback"], edit)["id"], "feedback"


def edited_reason(run: RunFolder, draw: random.Random) -> Expected:
    file = "verdicts/rollouts-1.parquet"
    return file, change(run, file, draw, any_row, lambda row: row.update(reason="no such table: elsewhere"))["id"], "reason"


def edited_key(run: RunFolder, draw: random.Random) -> Expected:
    file = "verdicts/rollouts-1.parquet"
    return file, change(run, file, draw, any_row, lambda row: row.update(key="0" * 64))["id"], "key"


def edited_data_hash(run: RunFolder, draw: random.Random) -> Expected:
    file = "verdicts/rollouts-1.parquet"
    return file, change(run, file, draw, any_row, lambda row: row.update(data_hash="0" * 64))["id"], "data_hash"


def edited_completion(run: RunFolder, draw: random.Random) -> Expected:
    file = f"rollouts/{stage(draw)}.parquet"
    row = change(run, file, draw, any_row, lambda row: row.update(completion=row["completion"] + " "))
    return file, row["id"], "content_hash"


def unforged_completion(run: RunFolder, draw: random.Random) -> Expected:
    edited_completion(run, draw)
    return "rollouts/", "", "sha256"


def other_answer(run: RunFolder, draw: random.Random) -> Expected:
    """Another answer with a hash that fits: only its execution tells."""

    def edit(row: Row) -> None:
        row["completion"] = f"SELECT '{draw.random()}'"
        row["content_hash"] = receipts.content_hash(row, receipts.ROLLOUT)

    name = stage(draw)
    return f"verdicts/{name}.parquet", change(run, f"rollouts/{name}.parquet", draw, any_row, edit)["id"], ""


def edited_prompt(run: RunFolder, draw: random.Random) -> Expected:
    def edit(row: Row) -> None:
        row["messages"][1]["content"] += " Hint: use COUNT."
        row["content_hash"] = receipts.content_hash(row, receipts.ROLLOUT)

    file = f"rollouts/{draw.choice(['rollouts-1', 'readiness', 'corrections-1'])}.parquet"
    return file, change(run, file, draw, any_row, edit)["id"], "messages"


def edited_turn(run: RunFolder, draw: random.Random) -> Expected:
    """The feedback in the prompt of a second turn."""

    def edit(row: Row) -> None:
        row["messages"][-1]["content"] = "Count the rows instead."
        row["content_hash"] = receipts.content_hash(row, receipts.ROLLOUT)

    file = "rollouts/corrections-1.parquet"
    return file, change(run, file, draw, lambda row: row["turn"] > 0, edit)["id"], "feedback"


def lost_verdict(run: RunFolder, draw: random.Random) -> Expected:
    file = "verdicts/rollouts-1.parquet"
    rows = run.read_rows(file)
    row = rows.pop(draw.randrange(len(rows)))
    run.write_rows(file, rows)
    return "rollouts/rollouts-1.parquet", row["id"], "verdict"


def lost_rollout(run: RunFolder, draw: random.Random) -> Expected:
    file = "rollouts/rollouts-1.parquet"
    rows = run.read_rows(file)
    row = rows.pop(draw.randrange(len(rows)))
    run.write_rows(file, rows)
    return "verdicts/rollouts-1.parquet", row["id"], "rollout"


def own_pair(row: Row) -> bool:
    return row["rejected"] is not None and row["source"] == "model"


def swapped_texts(run: RunFolder, draw: random.Random) -> Expected:
    def edit(row: Row) -> None:
        row["chosen"], row["rejected"] = row["rejected"], row["chosen"]

    file = "pairs/round-1.parquet"
    return file, change(run, file, draw, own_pair, edit)["id"], "chosen and rejected"


def swapped_sides(run: RunFolder, draw: random.Random) -> Expected:
    def edit(row: Row) -> None:
        for name in ("", "_ids", "_rollout", "_verdict"):
            row[f"chosen{name}"], row[f"rejected{name}"] = row[f"rejected{name}"], row[f"chosen{name}"]

    file = "pairs/round-1.parquet"
    return file, change(run, file, draw, own_pair, edit)["id"], "chosen and rejected"


def swapped_reference(run: RunFolder, draw: random.Random) -> Expected:
    def edit(row: Row) -> None:
        row["chosen"], row["rejected"] = row["rejected"], row["chosen"]

    file = "pairs/round-0.parquet"
    return file, change(run, file, draw, lambda row: row["rejected"] is not None, edit)["id"], "chosen and rejected"


def other_text(run: RunFolder, draw: random.Random) -> Expected:
    side = draw.choice(["chosen", "rejected"])

    def edit(row: Row) -> None:
        row[side][-1]["content"] += " LIMIT 9"

    file = "pairs/round-1.parquet"
    return file, change(run, file, draw, own_pair, edit)["id"], side


def other_reference(run: RunFolder, draw: random.Random) -> Expected:
    file = "pairs/round-0.parquet"
    row = change(run, file, draw, any_row, lambda row: row["chosen"][-1].update(content="SELECT 1"))
    return file, row["id"], "chosen"


def other_tokens(run: RunFolder, draw: random.Random) -> Expected:
    side = draw.choice(["chosen", "rejected"])

    def edit(row: Row) -> None:
        row[f"{side}_ids"][0] += 1

    file = "pairs/round-1.parquet"
    return file, change(run, file, draw, own_pair, edit)["id"], f"{side}_ids"


def missing_verdict(run: RunFolder, draw: random.Random) -> Expected:
    side = draw.choice(["chosen", "rejected"])
    file = "pairs/round-1.parquet"
    row = change(run, file, draw, own_pair, lambda row: row.update({f"{side}_verdict": "f" * 64}))
    return file, row["id"], f"{side}_verdict"


def missing_rollout(run: RunFolder, draw: random.Random) -> Expected:
    file = "pairs/round-1.parquet"
    row = change(run, file, draw, own_pair, lambda row: row.update(rejected_rollout="rollouts-1/nowhere/0"))
    return file, row["id"], "rejected_rollout"


def wrong_status(run: RunFolder, draw: random.Random) -> Expected:
    file = "pairs/round-1.parquet"
    return file, change(run, file, draw, own_pair, lambda row: row.update(rejected_status="TAMPER"))["id"], "rejected_status"


def other_pair_prompt(run: RunFolder, draw: random.Random) -> Expected:
    def edit(row: Row) -> None:
        row["prompt"][-1]["content"] += "?"

    file = f"pairs/round-{draw.randrange(2)}.parquet"
    return file, change(run, file, draw, any_row, edit)["id"], "prompt"


def trajectory(part: str, value: str | bool | None) -> Callable[[RunFolder, random.Random], Expected]:
    def plant(run: RunFolder, draw: random.Random) -> Expected:
        file = "trajectories/round-1.parquet"
        return file, change(run, file, draw, any_row, lambda row: row["turns"][0].update({part: value}))["id"], f"turn 0, {part}"

    return plant


def other_end(run: RunFolder, draw: random.Random) -> Expected:
    def edit(row: Row) -> None:
        row["end"] = "open" if row["end"] == "repaired" else "repaired"

    file = "trajectories/round-1.parquet"
    return file, change(run, file, draw, any_row, edit)["id"], "end"


def edited_try(part: str, value: Any) -> Callable[[RunFolder, random.Random], Expected]:
    """Another receipt of one of the answers that were drawn in a turn."""

    def plant(run: RunFolder, draw: random.Random) -> Expected:
        turn, number = draw.choice([(1, 0), (1, 1)])

        def edit(row: Row) -> None:
            one = row["turns"][turn]["tries"][number]
            one[part] = 1.0 - one["score"] if part == "score" else value

        return TURNS, change(run, TURNS, draw, any_row, edit)["id"], f"turn {turn}, try {number}, {part}"

    return plant


def edited_fresh(part: str, value: Any) -> Callable[[RunFolder, random.Random], Expected]:
    """Another receipt in the control."""

    def plant(run: RunFolder, draw: random.Random) -> Expected:
        number = draw.randrange(4)

        def edit(row: Row) -> None:
            one = row["fresh"][number]
            one[part] = 1.0 - one["score"] if part == "score" else value

        return TURNS, change(run, TURNS, draw, any_row, edit)["id"], f"fresh answer {number}, {part}"

    return plant


def lost_try(run: RunFolder, draw: random.Random) -> Expected:
    return TURNS, change(run, TURNS, draw, any_row, lambda row: row["turns"][1]["tries"].pop())["id"], "turn 1, tries"


def lost_fresh(run: RunFolder, draw: random.Random) -> Expected:
    return TURNS, change(run, TURNS, draw, any_row, lambda row: row["fresh"].pop(1))["id"], "fresh answers"


def shifted_labels(run: RunFolder, draw: random.Random) -> Expected:
    def edit(row: Row) -> None:
        row["labels"] = [*row["labels"][1:], -100]

    return TURNS, change(run, TURNS, draw, any_row, edit)["id"], "labels"


def label_on_prompt(run: RunFolder, draw: random.Random) -> Expected:
    """The prompt's last token is trained on, too."""

    def edit(row: Row) -> None:
        last = max(place for place, label in enumerate(row["labels"]) if label == -100)
        row["labels"][last] = row["input_ids"][last]

    return TURNS, change(run, TURNS, draw, any_row, edit)["id"], "labels"


def other_input(run: RunFolder, draw: random.Random) -> Expected:
    def edit(row: Row) -> None:
        row["input_ids"][draw.randrange(len(row["input_ids"]))] += 1

    return TURNS, change(run, TURNS, draw, any_row, edit)["id"], "input_ids"


def lost_trajectory(run: RunFolder, draw: random.Random) -> Expected:
    rows = run.read_rows(TURNS)
    row = rows.pop(draw.randrange(len(rows)))
    run.write_rows(TURNS, rows)
    return TURNS, row["id"], "row"


def pair_column(name: str, value: str, rejected_source: str = "model") -> Callable[[RunFolder, random.Random], Expected]:
    """Another value in a column of a pair whose rejected side is of this source."""

    def plant(run: RunFolder, draw: random.Random) -> Expected:
        file = f"pairs/round-{0 if rejected_source == 'mutation' else draw.randrange(2)}.parquet"
        row = change(run, file, draw, lambda row: row["rejected_source"] == rejected_source, lambda row: row.update({name: value}))
        return file, row["id"], name

    return plant


def repair_column(name: str) -> Callable[[RunFolder, random.Random], Expected]:
    """Other tokens in the training row of a repair, in the round's rows or in those of the corrections alone."""

    def plant(run: RunFolder, draw: random.Random) -> Expected:
        def edit(row: Row) -> None:
            row[name][0] += 1

        file = draw.choice(["pairs/round-1.parquet", "pairs/corrections-1.parquet"])
        return file, change(run, file, draw, lambda row: row["source"] == "correction", edit)["id"], name

    return plant


def lost_repair(run: RunFolder, draw: random.Random) -> Expected:
    file = "pairs/corrections-1.parquet"
    rows = run.read_rows(file)
    row = rows.pop(draw.randrange(len(rows)))
    run.write_rows(file, rows)
    return file, row["id"], "row"


def other_mutation(run: RunFolder, draw: random.Random) -> Expected:
    """A changed answer that was never executed, with hashes that fit."""

    def edit(row: Row) -> None:
        row["completion"] += " LIMIT 1"
        row["content_hash"] = receipts.content_hash(row, receipts.ROLLOUT)

    return "verdicts/pairs-0.parquet", change(run, MUTATED, draw, any_row, edit)["id"], "key"


def mutation_name(run: RunFolder, draw: random.Random) -> Expected:
    return MUTATED, change(run, MUTATED, draw, any_row, lambda row: row.update(mutation="nothing"))["id"], "mutation"


def mutation_prompt(run: RunFolder, draw: random.Random) -> Expected:
    def edit(row: Row) -> None:
        row["messages"][-1]["content"] += "!"
        row["content_hash"] = receipts.content_hash(row, receipts.ROLLOUT)

    return MUTATED, change(run, MUTATED, draw, any_row, edit)["id"], "messages"


def mutation_of_the_model(run: RunFolder, draw: random.Random) -> Expected:
    """A changed answer that passes for one of the model's own."""

    def edit(row: Row) -> None:
        row["model"] = run.read_rows("rollouts/rollouts-0.parquet")[0]["model"]
        row["content_hash"] = receipts.content_hash(row, receipts.ROLLOUT)

    return MUTATED, change(run, MUTATED, draw, any_row, edit)["id"], "model"


def edited_card(run: RunFolder, draw: random.Random) -> Expected:
    lines = run.file(CARD).read_text("utf-8").split("\n")
    number = draw.choice([number for number, line in enumerate(lines) if re.search(r"\| \d+ \|", line)])
    lines[number] = re.sub(r"\| (\d+) \|", lambda match: f"| {int(match[1]) + 1} |", lines[number], count=1)
    run.write_text(CARD, "\n".join(lines))
    return CARD, f"line {number + 1}", ""


def unforged_card(run: RunFolder, draw: random.Random) -> Expected:
    edited_card(run, draw)
    return CARD, "", "sha256"


def answer_row(row: Row) -> str:
    return f"{row['policy']}/{row['example_id']}/{row['kind']}"


def flipped_answer(run: RunFolder, draw: random.Random) -> Expected:
    return ANSWERS, answer_row(change(run, ANSWERS, draw, scored, flipped)), "status"


def edited_answer(run: RunFolder, draw: random.Random) -> Expected:
    def edit(row: Row) -> None:
        row["completion"] = row["gold"] if row["score"] != 1 else "I do not know."

    return ANSWERS, answer_row(change(run, ANSWERS, draw, any_row, edit)), "content_hash"


def forged_answer(run: RunFolder, draw: random.Random) -> Expected:
    """A wrong answer replaced by the gold, everything beside the score forged: the score alone is then wrong."""

    def edit(row: Row) -> None:
        row["completion"] = row["sql"] = row["gold"]
        row["content_hash"] = receipts.content_hash(row, receipts.ANSWER)

    return ANSWERS, answer_row(change(run, ANSWERS, draw, lambda row: row["score"] == 0, edit)), "status"


def lost_answer(run: RunFolder, draw: random.Random) -> Expected:
    rows = run.read_rows(ANSWERS)
    row = rows.pop(draw.randrange(len(rows)))
    run.write_rows(ANSWERS, rows)
    return ANSWERS, answer_row(row), "row"


def other_gold(run: RunFolder, draw: random.Random) -> Expected:
    return ANSWERS, answer_row(change(run, ANSWERS, draw, any_row, lambda row: row.update(gold="SELECT 1"))), "gold"


def leaf(value: Any, draw: random.Random, path: tuple = ()) -> tuple[tuple, float]:
    """A number in a JSON document, and the way to it."""
    found: list[tuple[tuple, float]] = []

    def walk(value: Any, path: tuple) -> None:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
            walk(item, (*path, key))
        if isinstance(value, int | float) and not isinstance(value, bool):
            found.append((path, value))

    walk(value, path)
    return draw.choice(found)


def edited_json(rel: str, *, below: tuple = (), row: str = "") -> Callable[[RunFolder, random.Random], Expected]:
    """Another number in one place of a JSON file."""

    def plant(run: RunFolder, draw: random.Random) -> Expected:
        document = run.read_json(rel)
        place = document
        for key in below:
            place = place[key]
        path, value = leaf(place, draw, below)
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = value + 1
        run.write_json(rel, document)
        return rel, row or str(path[-1] if isinstance(path[-1], str) else path[-2]), ""

    return plant


def edited_report(rel: str) -> Callable[[RunFolder, random.Random], Expected]:
    """Another digit somewhere in the report."""

    def plant(run: RunFolder, draw: random.Random) -> Expected:
        lines = run.file(rel).read_text("utf-8").split("\n")
        number = draw.choice([number for number, line in enumerate(lines) if re.search(r"\d\.\d", line)])
        at = draw.choice([match.start() for match in re.finditer(r"\d(?=\.\d)", lines[number])])
        lines[number] = f"{lines[number][:at]}{(int(lines[number][at]) + 1) % 10}{lines[number][at + 1 :]}"
        run.write_text(rel, "\n".join(lines))
        return rel, f"line {number + 1}", ""

    return plant


def manifest_figure(run: RunFolder, draw: random.Random) -> Expected:
    manifest = run.manifest
    name, figure = draw.choice(FIGURES)
    manifest["stages"][name]["figures"][figure] += 1
    run.write_json("manifest.json", manifest)
    return "manifest.json", f"{name}.figures.{figure}", ""


FIGURES = [
    ("rollouts-1", "right"), ("pairs-1", "pairs"), ("warm_start-0", "loss_last"), ("evaluate", "tokens"), ("readiness", "signal_share"),
    ("corrections-1", "repaired_share"), ("corrections-1", "fresh_share"), ("corrections-1", "duplicates"),
    ("pairs-0", "length_tells_share"), ("pairs-0", "mutations_wrong"), ("pairs-0", "leaked_queries"), ("pairs-0", "verifier_calls"),
]  # fmt: skip


def manifest_hash(run: RunFolder, draw: random.Random) -> Expected:
    manifest = run.manifest
    manifest["stages"]["pairs-0"]["outputs"]["pairs/round-0.parquet"] = "0" * 64
    run.write_json("manifest.json", manifest)
    return "pairs/round-0.parquet", "", "content hash"


def missing_file(run: RunFolder, draw: random.Random) -> Expected:
    rel = draw.choice(["rollouts/rollouts-0.parquet", "warm_start/round-1/adapter/adapter_model.safetensors", "select-warm.json", ANSWERS])
    run.file(rel).unlink()
    return rel, "", "file"


def missing_stage(run: RunFolder, draw: random.Random) -> Expected:
    manifest = run.manifest
    del manifest["stages"]["rollouts-calibrate"]
    run.write_json("manifest.json", manifest)
    return "manifest.json", "rollouts-calibrate", "entry"


def other_weights(run: RunFolder, draw: random.Random) -> Expected:
    run.file("adapter/adapter_model.safetensors").write_text("0.99")
    return "adapter/adapter_model.safetensors", "", "weights"


def edited_recipe(run: RunFolder, draw: random.Random) -> Expected:
    old, new = draw.choice([("per_prompt: 3", "per_prompt: 2"), ("mutations: 2", "mutations: 3"), ("nll: 1.0", "nll: 0.5")])
    text = run.file("recipe.yaml").read_text()
    assert old in text
    run.write_text("recipe.yaml", text.replace(old, new, 1))
    return "manifest.json", "", "inputs"


def edited_curve(run: RunFolder, draw: random.Random) -> Expected:
    lines = run.file("metrics.jsonl").read_text().splitlines()
    number = draw.choice([number for number, line in enumerate(lines) if "loss" in line])
    row = json.loads(lines[number])
    lines[number] = json.dumps({**row, "loss": row["loss"] / 2})
    run.write_text("metrics.jsonl", "\n".join(lines) + "\n")
    return "metrics.jsonl", row["stage"], "curve"


def flipped_validation(run: RunFolder, draw: random.Random) -> Expected:
    file = f"evaluation/{draw.choice(['select-warm', 'select-final'])}.parquet"
    return file, answer_row(change(run, file, draw, scored, flipped)), "status"


def other_choice(run: RunFolder, draw: random.Random) -> Expected:
    result = run.read_json("select-warm.json")
    result["chosen"] = next(name for name in result["candidates"] if name != result["chosen"])
    run.write_json("select-warm.json", result)
    return "select-warm.json", "chosen", ""


def other_adapter(run: RunFolder, draw: random.Random) -> Expected:
    """An answer of the base model that passes for one of trained weights."""

    def edit(row: Row) -> None:
        row["adapter"] = None
        row["content_hash"] = receipts.content_hash(row, receipts.ROLLOUT)

    file = f"rollouts/{draw.choice(['rollouts-1', 'rollouts-calibrate'])}.parquet"
    return file, change(run, file, draw, any_row, edit)["id"], "adapter"


def other_receipt(run: RunFolder, draw: random.Random) -> Expected:
    name = draw.choice(["model", "template", "versions", "data_hash"])
    file = draw.choice(["pairs/round-1.parquet", "trajectories/round-1.parquet"])
    return file, change(run, file, draw, any_row, lambda row: row.update({name: "other"}))["id"], name


FAULTS = [
    Fault("flipped label", flipped_label, 4),
    Fault("score alone", score_alone),
    Fault("edited feedback", edited_feedback),
    Fault("edited reason", edited_reason),
    Fault("edited key", edited_key),
    Fault("edited data hash", edited_data_hash),
    Fault("edited answer", edited_completion),
    Fault("edited answer, manifest left", unforged_completion, layer="alone", forged=False),
    Fault("another answer, forged", other_answer, 2),
    Fault("edited prompt", edited_prompt),
    Fault("edited turn", edited_turn),
    Fault("lost verdict", lost_verdict),
    Fault("lost rollout", lost_rollout),
    Fault("swapped texts", swapped_texts),
    Fault("swapped sides", swapped_sides, 2),
    Fault("swapped reference", swapped_reference),
    Fault("another text in a pair", other_text),
    Fault("another reference", other_reference),
    Fault("other tokens", other_tokens),
    Fault("verdict that is not there", missing_verdict),
    Fault("rollout that is not there", missing_rollout),
    Fault("wrong status in a pair", wrong_status),
    Fault("another prompt in a pair", other_pair_prompt),
    Fault("turn of a trajectory", trajectory("content", "SELECT 1")),
    Fault("feedback of a trajectory", trajectory("feedback", "Count the rows.")),
    Fault("status of a trajectory", trajectory("status", "PASS")),
    Fault("verdict of a trajectory", trajectory("verdict", "0" * 64)),
    Fault("end of a trajectory", other_end),
    Fault("flipped evaluation answer", flipped_answer, 2),
    Fault("edited evaluation answer", edited_answer),
    Fault("forged evaluation answer", forged_answer),
    Fault("lost evaluation answer", lost_answer),
    Fault("another gold", other_gold),
    Fault("score of a try", edited_try("score", None), 2),
    Fault("verdict of a try", edited_try("verdict", "0" * 64)),
    Fault("rollout of a try", edited_try("rollout", "corrections-1/nowhere/0")),
    Fault("score of a fresh answer", edited_fresh("score", None)),
    Fault("verdict of a fresh answer", edited_fresh("verdict", "0" * 64)),
    Fault("rollout of a fresh answer", edited_fresh("rollout", "rollouts-1/nowhere/0")),
    Fault("lost try", lost_try),
    Fault("lost fresh answer", lost_fresh),
    Fault("reason of a trajectory", trajectory("reason", "other rows")),
    Fault("wrong turn that is trained on", trajectory("train", True)),
    Fault("shifted labels", shifted_labels),
    Fault("label on the prompt", label_on_prompt),
    Fault("other input tokens", other_input),
    Fault("lost trajectory", lost_trajectory),
    Fault("reason of a pair", pair_column("rejected_reason", "other rows")),
    Fault("reason of a pair with a mutation", pair_column("rejected_reason", "other rows", "mutation")),
    Fault("source of a rejected side", pair_column("rejected_source", "mutation")),
    Fault("mutation that passes for the model's", pair_column("rejected_source", "model", "mutation")),
    Fault("source of a chosen side", pair_column("source", "history")),
    Fault("trust of a pair", pair_column("trust", "model")),
    Fault("chosen tokens of a repair", repair_column("chosen_ids")),
    Fault("prompt tokens of a repair", repair_column("prompt_ids")),
    Fault("lost repair", lost_repair),
    Fault("other mutation", other_mutation),
    Fault("name of a mutation", mutation_name),
    Fault("prompt of a mutation", mutation_prompt),
    Fault("mutation in the model's name", mutation_of_the_model),
    Fault("evaluation figure", edited_json("evaluation.json"), 3, "figures"),
    Fault("ledger figure", edited_json("ledger.json"), 3, "figures"),
    Fault("readiness figure", edited_json("readiness.json"), 3, "figures"),
    Fault("selection figure", edited_json("select-warm.json", below=("scores",)), 1, "figures"),
    Fault("report figure", edited_report("report.md"), 2, "figures"),
    Fault("figure of the page", edited_report("report.html"), 2, "figures"),
    Fault("count on the card", edited_card, 2, "figures"),
    Fault("figure of a stage", manifest_figure, 6, "figures"),
    Fault("count on the card, manifest left", unforged_card, layer="alone", forged=False),
    Fault("hash of a file", manifest_hash, layer="alone", forged=False),
    Fault("missing file", missing_file, 2, "alone"),
    Fault("missing stage", missing_stage, layer="alone"),
    Fault("another adapter", other_adapter),
    Fault("another receipt", other_receipt, 2),
    Fault("other weights", other_weights, layer="alone"),
    Fault("edited recipe", edited_recipe, 1, "alone"),
    Fault("edited curve", edited_curve),
    Fault("flipped validation answer", flipped_validation),
    Fault("another choice", other_choice, layer="alone"),
]
CASES = [(fault, seed) for fault in FAULTS for seed in range(fault.times)]


def batch_of(case: int) -> tuple[Layer, int]:
    """Which faults are planted in one run together: those of one layer, dealt out so that like faults come into different runs.

    Faults in rows change no figure that an audit computes again but by their answers; figures are changed in runs of their own.
    """
    layer = CASES[case][0].layer
    earlier = sum(fault.layer == layer for fault, _ in CASES[:case])
    return layer, earlier % RUNS.get(layer, len(CASES))


RUNS = {"rows": 8, "figures": 3}
