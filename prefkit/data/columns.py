"""The types of the columns of a run's Parquet files: one that is empty in one run has the type it has in every other, so that the files of
many runs open together.

Columns that stand here and that no row has are written as null; those of a row that do not stand here get the type of their values.
"""

from __future__ import annotations

from typing import Any

Types = dict[str, Any]
"""Column -> pyarrow type."""
_RECEIPT = ("model", "template", "versions", "data_hash")
"""What a training row rests on, beside its rollouts and verdicts (see receipts.py)."""


def rollouts() -> Types:
    """Of rollouts/<stage>.parquet."""
    import pyarrow as pa

    text, ids = pa.string(), pa.list_(pa.int64())
    return {
        **dict.fromkeys(("id", "example_id", "split", "database"), text),
        "level": pa.int64(),
        "messages": _messages(),
        "prompt_ids": ids,
        "completion": text,
        "completion_ids": ids,
        "logprobs": pa.list_(pa.float64()),
        "prompt_tokens": pa.int64(),
        "tokens": pa.int64(),
        "ended": pa.bool_(),
        "truncated": pa.bool_(),
        "k": pa.int64(),
        "temperature": pa.float64(),
        "seed": pa.int64(),
        **dict.fromkeys(("model", "adapter", "template"), text),
        "turn": pa.int64(),
        **dict.fromkeys(("parent", "content_hash"), text),
    }


def verdicts() -> Types:
    """Of verdicts/<stage>.parquet."""
    import pyarrow as pa

    text, number = pa.string(), pa.float64()
    return {
        **dict.fromkeys(("id", "status"), text),
        "score": number,
        **dict.fromkeys(("reason", "feedback", "trust", "tier"), text),
        **dict.fromkeys(("cpu_s", "wall_s"), number),
        "peak_mem": pa.int64(),
        "cached": pa.bool_(),
        **dict.fromkeys(("key", "versions", "data_hash"), text),
    }


def trajectories() -> Types:
    """Of trajectories/round-N.parquet."""
    import pyarrow as pa

    text, ids = pa.string(), pa.list_(pa.int64())
    receipts = pa.list_(pa.struct({"rollout": text, "verdict": text, "score": pa.float64()}))
    said = dict.fromkeys(("content", "rollout", "verdict", "status", "reason", "feedback"), text)
    return {
        **dict.fromkeys(("id", "example_id", "database"), text),
        "level": pa.int64(),
        "prompt": _messages(),
        "completion": _messages(),
        "input_ids": ids,
        "labels": ids,
        "turns": pa.list_(pa.struct({**said, "tries": receipts, "train": pa.bool_()})),
        "fresh": receipts,
        "end": text,
        **dict.fromkeys(_RECEIPT, text),
    }


def pairs() -> Types:
    """Of pairs/*.parquet."""
    import pyarrow as pa

    text, ids = pa.string(), pa.list_(pa.int64())
    sides = ("chosen_rollout", "rejected_rollout", "chosen_verdict", "rejected_verdict", "rejected_status", "rejected_reason", "trust")
    return {
        **dict.fromkeys(("id", "example_id", "database"), text),
        "level": pa.int64(),
        **dict.fromkeys(("prompt", "chosen", "rejected"), _messages()),
        **dict.fromkeys(("prompt_ids", "chosen_ids", "rejected_ids"), ids),
        **dict.fromkeys(("source", "rejected_source", *sides, *_RECEIPT), text),
    }


def _messages() -> Any:
    import pyarrow as pa

    return pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))
