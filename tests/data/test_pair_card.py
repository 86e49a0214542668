"""The card of a run's pairs: Hugging Face's head, every count, and nothing that a name can break."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from prefkit.data import columns, pair_card
from prefkit.data.pair_checks import figures, leakage, warnings
from prefkit.runfolder import RunFolder

Row = dict[str, Any]


def row(number: int, rejected: str | None = "SELECT 2", **changes: Any) -> Row:
    made = {
        "id": str(number), "example_id": f"q{number}", "database": "shop", "level": 1, "source": "model",
        "rejected_source": rejected and "model", "rejected_status": rejected and "WRONG",
        "prompt": [{"role": "user", "content": f"{number}?"}],
        "chosen": [{"role": "assistant", "content": "SELECT a FROM item"}],
        "rejected": rejected and [{"role": "assistant", "content": rejected}],
        "prompt_ids": [1], "chosen_ids": [3, 2], "rejected_ids": rejected and [4, 2],
    }  # fmt: skip
    return {**made, **changes}


def counts(rows: list[Row], **more: Any) -> Row:
    found = {**figures(rows), **leakage(rows, {}, []), **more}
    return {**found, "warnings": warnings(found)}


ROUNDS = [
    counts([row(1, None, source="reference"), row(2, None, source="reference")], dropped_long=3),
    counts([row(number, "the other" if number else "SELECT 2", level=number % 2 + 1) for number in range(60)],
           mutations_tried=5, mutations_wrong=4, by_mutation={"wrong_column": {"tried": 5, "wrong": 4, "passed": 1}}),
]  # fmt: skip


def head(card: str) -> Row:
    return yaml.safe_load(card.removeprefix("---\n").partition("\n---\n")[0])


def test_the_folder_opens_by_its_card(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict, load_dataset

    run = RunFolder(tmp_path / "run")
    written = [[row(1, None), row(2, None)], [row(3), row(4, None)]]
    for number, rows in enumerate(written):
        run.write_rows(f"pairs/round-{number}.parquet", rows, columns.pairs())
    run.write_rows("pairs/corrections-1.parquet", [], columns.pairs())
    run.write_text("pairs/README.md", pair_card.text("shop", "embedded", {}, ROUNDS))
    loaded = load_dataset(str(run.file("pairs")), cache_dir=str(tmp_path / "cache"))
    assert isinstance(loaded, DatasetDict) and list(loaded) == ["round_0", "round_1"]
    assert [list(split["id"]) for split in loaded.values()] == [["1", "2"], ["3", "4"]]
    assert loaded["round_0"].features == loaded["round_1"].features, "a side that is null in every row has its type"
    one = load_dataset(str(run.file("pairs")), split="round_1", cache_dir=str(tmp_path / "cache"))
    assert isinstance(one, Dataset)
    assert one.filter(lambda found: found["rejected"] is not None)["id"] == ["3"]


def test_the_head_is_that_of_a_dataset_card() -> None:
    found = head(pair_card.text("shop", "embedded", {}, ROUNDS))
    assert found["configs"] == [{"config_name": "default", "data_files": [
        {"split": "round_0", "path": "round-0.parquet"}, {"split": "round_1", "path": "round-1.parquet"}]}]  # fmt: skip
    assert found["size_categories"] == ["n<1K"] and "dpo" in found["tags"]


def test_every_count_stands_in_the_card_by_round() -> None:
    card = pair_card.text("shop", "embedded", {"strategy": "nearest", "fallback": [], "seed": 17}, ROUNDS)
    lines = card.splitlines()
    assert "| rows | 2 | 60 |" in lines and "| with both sides | 0 | 60 |" in lines
    assert "| dropped: too long | 3 | – |" in lines
    assert "| changed answers executed | – | 5 |" in lines and "| wrong_column | – | 4 of 5 |" in lines
    assert "| shop.item | 2 | 60 |" in lines and "| WRONG | 0 | 60 |" in lines and "| 2 | 0 | 30 |" in lines
    assert "- strategy: nearest" in lines and "- fallback: none" in lines
    assert not any("dropped: there already" in line for line in lines), "a count that no round has is left out"


def test_warnings_stand_in_the_card_and_so_does_their_absence() -> None:
    card = pair_card.text("shop", "embedded", {}, ROUNDS)
    (warning,) = ROUNDS[1]["warnings"]
    assert f"- Round 1: {warning}" in card.splitlines() and "starts with SELECT" in warning
    assert "Nothing was found" not in card
    assert "Nothing was found" in pair_card.text("shop", "embedded", {}, ROUNDS[:1])


def test_names_cannot_break_the_card() -> None:
    evil = "a|b\n---\nlicense: [\n<script>`"
    broken = counts([row(1, database=evil)])
    card = pair_card.text(evil, evil, {"x": evil}, [broken])
    assert head(card)["pretty_name"].startswith("Preference pairs: a")
    assert card.count("\n---\n") == 1 and "<script>" not in card
    table = [line for line in card.splitlines() if line.startswith("| a")]
    assert table and all(line.replace("\\|", "").count("|") == 3 for line in table)
