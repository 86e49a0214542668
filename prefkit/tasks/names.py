"""The names of splits and of the data instances of a dataset's databases."""

from __future__ import annotations

HELD_OUT = ("validation", "test", "unseen")
SPLITS = ("train", *HELD_OUT)
INGESTED = "ingested"
"""The split of questions out of a production log. They train, and are never held out."""
INSTANCES = (1, 2)
