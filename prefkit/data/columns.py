"""The types of the columns of a run's Parquet files: one that is empty in one run has the type it has in every other, so that the files of
many runs open together.

Columns that stand here and that no row has are written as null; those of a row that do not stand here get the type of their values.
"""

from __future__ import annotations

from typing import Any

Types = dict[str, Any]
"""Column -> pyarrow type."""


def pairs() -> Types:
    """Of pairs/*.parquet."""
    import pyarrow as pa

    text, ids = pa.string(), pa.list_(pa.int64())
    receipts = ("chosen_rollout", "rejected_rollout", "chosen_verdict", "rejected_verdict", "rejected_status", "rejected_reason")
    return {
        **dict.fromkeys(("id", "example_id", "database"), text),
        "level": pa.int64(),
        **dict.fromkeys(("prompt", "chosen", "rejected"), _messages()),
        **dict.fromkeys(("prompt_ids", "chosen_ids", "rejected_ids"), ids),
        **dict.fromkeys(("source", "rejected_source", *receipts), text),
    }


def _messages() -> Any:
    import pyarrow as pa

    return pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))
