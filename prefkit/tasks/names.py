"""The names of splits and of the data instances of a dataset's databases."""

from __future__ import annotations

HELD_OUT = ("validation", "test", "unseen")
SPLITS = ("train", *HELD_OUT)
INSTANCES = (1, 2)
