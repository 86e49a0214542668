"""Write a changed query in the spelling of the one it was made from: its spaces, line ends, capitals, quotes and optional words.

A parser forgets these, and its generator has a manner of its own. So three rows of tokens are laid beside each other: the query as it was
written, as the generator writes it, and as the generator writes the changed one. What is the same in all three anchors the text; between
two anchors the writer's own text stays where the generator changed nothing, and is replaced where it did.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

Tree = Any
"""A parsed query."""

_SAME = {"!=": "<>", "==": "="}
"""Operators that are written in two ways."""
_REACHES = (0, 2, 5)
_Anchor = tuple[int, int, int]
"""Where a token stands in the query as written, in the generator's form of it, and in the changed one."""


@dataclass(frozen=True, slots=True)
class _Tokens:
    """A query cut into tokens: spans are [start, end) in `text`, keys are what makes two tokens the same."""

    text: str
    spans: list[tuple[int, int]]
    keys: list[str]

    def gap(self, after: int, before: int) -> str:
        """The text between the token `after` (-1: the beginning) and the token `before`."""
        start = self.spans[after][1] if after >= 0 else 0
        return self.text[start : self.spans[before][0] if before < len(self.spans) else len(self.text)]


class Spelling:
    """How `sql`, which was parsed into `tree`, is written. Raises what sqlglot raises."""

    def __init__(self, sql: str, tree: Tree, dialect: str) -> None:
        self.dialect = dialect
        self._own = self._tokens(sql)
        self._plain = self._tokens(self._written(tree))
        self._anchors = _matches(self._own.keys, self._plain.keys)
        first = sql[slice(*self._own.spans[0])] if self._own.spans else ""
        self._lower = first.islower()

    def key(self, sql: str) -> tuple[str, ...]:
        """Equal for queries that differ in spaces and capitals alone."""
        return tuple(self._tokens(sql).keys)

    def respell(self, changed: Tree) -> str | None:
        """`changed` in this spelling; None where it cannot be had (what came out would be another query)."""
        from sqlglot.errors import SqlglotError

        new = self._tokens(self._written(changed))
        there = dict(_matches(self._plain.keys, new.keys))
        anchors = [(own, plain, there[plain]) for own, plain in self._anchors if plain in there]
        # A word that a writer puts elsewhere than the generator (IS NOT NULL for NOT … IS NULL) may be left over beside a change: then more
        # around it is written anew.
        wanted = self._parsed(new.text)
        for reach in _REACHES:
            text = self._put_together(new, self._kept(new, anchors, reach))
            try:
                if self._parsed(text) == wanted:
                    return text
            except SqlglotError:
                pass
        return None

    def _kept(self, new: _Tokens, anchors: list[_Anchor], reach: int) -> list[_Anchor]:
        """The anchors with their two ends, without those that stand within `reach` of a change."""
        whole = [(-1, -1, -1), *anchors, (len(self._own.keys), len(self._plain.keys), len(new.keys))]
        changed = [place for place in range(1, len(whole)) if not self._same(new, whole[place - 1], whole[place])]
        near = {place + step for place in changed for step in range(-reach, reach)}
        return [anchor for place, anchor in enumerate(whole) if place not in near or place in (0, len(whole) - 1)]

    def _put_together(self, new: _Tokens, anchors: list[_Anchor]) -> str:
        text = ""
        for last, anchor in pairwise(anchors):
            text += self._between(new, last, anchor)
            if anchor[0] < len(self._own.spans):
                text += self._own.text[slice(*self._own.spans[anchor[0]])]
        return text

    def _same(self, new: _Tokens, last: _Anchor, anchor: _Anchor) -> bool:
        """Whether the generator writes nothing else between two anchors than before."""
        return self._plain.keys[last[1] + 1 : anchor[1]] == new.keys[last[2] + 1 : anchor[2]]

    def _between(self, new: _Tokens, last: _Anchor, anchor: _Anchor) -> str:
        own = self._own.gap(last[0], anchor[0])
        if self._same(new, last, anchor):
            return own
        written = new.gap(last[2], anchor[2])
        inner = self._cased(new, last[2] + 1, anchor[2])
        before, after = _outer_space(written)
        own_before, own_after = _outer_space(own)
        if not inner:  # left out: one space, or the line's end, stays where its neighbours need one
            needed = written and anchor[0] < len(self._own.keys)
            return max(own_after, own_before, key=lambda space: space.count("\n")) or own_before or written if needed else ""
        if own.strip():  # one thing for another: the spaces around it stay
            return own_before + inner + own_after
        return (own_before if own_before and before else before) + inner + after

    def _cased(self, new: _Tokens, first: int, stop: int) -> str:
        """What is new, between its outer spaces; in small letters where the query's words are. Quoted text stays as it is."""
        text = ""
        for place in range(first, stop):
            word = new.text[slice(*new.spans[place])]
            text += word.lower() if self._lower and word.isalpha() else word
            text += new.gap(place, place + 1) if place + 1 < stop else ""
        return text

    def _parsed(self, sql: str) -> str:
        """What tells two queries apart: the generator's form of it, in small letters."""
        import sqlglot

        return self._written(sqlglot.parse_one(sql, read=self.dialect)).lower()

    def _written(self, tree: Tree) -> str:
        return tree.sql(self.dialect, comments=False)

    def _tokens(self, sql: str) -> _Tokens:
        import sqlglot

        tokens = sqlglot.tokenize(sql, read=self.dialect)
        spans = [(token.start, token.end + 1) for token in tokens]
        words = [sql[start:end] for start, end in spans]
        return _Tokens(sql, spans, [word if word[:1] in "'\"`[" else _SAME.get(word, word.upper()) for word in words])


def _matches(one: list[str], other: list[str]) -> list[tuple[int, int]]:
    """Pairs of places that hold the same, in order."""
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return [(block.a + step, block.b + step) for block in blocks for step in range(block.size)]


def _outer_space(text: str) -> tuple[str, str]:
    """The white space that a text begins with and the one it ends with; all of it begins a text of nothing else."""
    inner = text.strip()
    if not inner:
        return text, ""
    start = text.index(inner)
    return text[:start], text[start + len(inner) :]
