"""What to say when a name is not known: the nearest ones, and what there is."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, options: Iterable[str]) -> list[str]:
    """At most three of `options` that look like `word`, the nearest first."""
    from difflib import get_close_matches

    return get_close_matches(word, list(options), n=3, cutoff=0.6)


def suggestion(word: str, options: Iterable[str], most: int = 12) -> str:
    """A sentence for the end of an error message: `did you mean "a"? There are: a, b, c.`"""
    known = list(options)
    close = nearest(word, known)
    parts = [f"did you mean {' or '.join(close)}?"] if close else []
    if not known:
        parts.append("there are none.")
    elif len(known) <= most:
        parts.append(f"there {'are' if len(known) > 1 else 'is'}: {', '.join(known)}.")
    elif not close:
        parts.append(f"there are: {', '.join(known[:most])} and {len(known) - most} more.")
    return " ".join(part if not index else part[0].upper() + part[1:] for index, part in enumerate(parts))
