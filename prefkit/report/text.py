"""Text that is safe to look at, and figures as people write them."""

from __future__ import annotations

import math
import unicodedata

_KEPT = frozenset("\n\t\u200c\u200d")  # joiners belong to words and emoji
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def visible(text: object) -> str:
    """``text`` with every character that hides, reverses or breaks text written out, such as ⟨U+202E⟩ for a right-to-left override.

    Model answers may hold anything; a report must show what is there. Lone surrogates, which no file can hold, are written out as well.
    """
    plain = str(text).replace("\r\n", "\n")
    if plain.isascii() and plain.isprintable():
        return plain
    return "".join(c if c in _KEPT or unicodedata.category(c) not in _HIDDEN else f"⟨U+{ord(c):04X}⟩" for c in plain)


def shorten(text: str, limit: int) -> str:
    """At most ``limit`` characters of ``text``, saying how many were left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit].rstrip()} … ({len(text) - limit:,} more characters)"


def number(value: float | int | None) -> str:
    """A count with thousands separators, or a measured value with as many digits as say something."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}".replace("-", "\u2212")
    size = abs(value)
    text = f"{value:,.0f}" if size >= 1000 else f"{value:.2f}" if size >= 1 else f"{value:.3g}"
    return text.replace("-", "\u2212")


def duration(seconds: float | None) -> str:
    """Seconds as people say them: "42 s", "12 min 05 s", "3 h 20 min"."""
    if seconds is None:
        return "–"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(whole / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"
