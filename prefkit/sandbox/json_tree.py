"""Walk a tree as JSON gives it: an engine's syntax tree or plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def objects(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object in a tree, without recursion."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left += node.values()
        elif isinstance(node, list):
            left += node
