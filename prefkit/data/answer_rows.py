"""Read the answers of a stage for making pairs: of 200,000 rollouts in little memory.

The token ids and messages of a prompt stand in the file once for each answer. Here they are made once for each prompt and shared, and
columns that no pair needs are not read.
"""

from __future__ import annotations

from typing import Any

from prefkit.errors import RunError
from prefkit.runfolder import RunFolder

Row = dict[str, Any]

OF_ANSWERS = ("id", "example_id", "completion", "completion_ids", "logprobs", "ended")
OF_PROMPTS = ("messages", "prompt_ids")
OF_VERDICTS = ("id", "status", "score", "reason", "key", "trust")
BATCH = 4096


def read_answers(run: RunFolder, stage: str) -> tuple[list[Row], list[Row]]:
    """Rollouts and verdicts that `stage` wrote, in the order of the files, with the columns named above.

    The rows of one question share their prompt: change none in place. For first turns, where a question has one prompt. RunError where a
    file is missing or broken.
    """
    return _rollouts(run, f"rollouts/{stage}.parquet"), _verdicts(run, f"verdicts/{stage}.parquet")


def _rollouts(run: RunFolder, rel: str) -> list[Row]:
    rows: list[Row] = []
    prompts: dict[str, Row] = {}
    tokens: dict[int, int] = {}  # equal token ids are one object: a list of them takes a fifth of the memory
    for batch in _batches(run, rel, (*OF_ANSWERS, *OF_PROMPTS)):
        places = {name: batch.schema.get_field_index(name) for name in OF_PROMPTS}
        for number, row in enumerate(batch.select(list(OF_ANSWERS)).to_pylist()):
            prompt = prompts.get(row["example_id"])
            if prompt is None:
                prompt = {name: batch.column(place)[number].as_py() for name, place in places.items()}
                prompt["prompt_ids"] = [tokens.setdefault(token, token) for token in prompt["prompt_ids"]]
                prompts[row["example_id"]] = prompt
            row["completion_ids"] = [tokens.setdefault(token, token) for token in row["completion_ids"]]
            rows.append({**row, **prompt})
    return rows


def _verdicts(run: RunFolder, rel: str) -> list[Row]:
    return [row for batch in _batches(run, rel, OF_VERDICTS) for row in batch.to_pylist()]


def _batches(run: RunFolder, rel: str, columns: tuple[str, ...]) -> Any:
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        with parquet.ParquetFile(run.file(rel)) as file:
            # A file without rows has no columns.
            there = [name for name in columns if name in file.schema_arrow.names]
            if file.metadata.num_rows:
                yield from file.iter_batches(batch_size=BATCH, columns=there)
    except FileNotFoundError as error:
        raise RunError(f"{run.file(rel)} is missing: the stage that writes it has not run. Run the recipe with --resume.") from error
    except pyarrow.ArrowException as error:
        raise RunError(f"{run.file(rel)} is broken ({error}). Delete it and run the recipe with --resume.") from error
