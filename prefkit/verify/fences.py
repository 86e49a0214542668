"""Fenced blocks whose marks stand on lines of their own, as in Markdown: for program text, which may hold such marks inside its lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE_LINE = re.compile(r"[ \t]*(?:[-*>]\s+|\d+[.)]\s+)?(`{3,}|~{3,})(.*)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. info: what stands after the opening fence. before: the last line above it that is not empty."""

    info: str
    body: str
    before: str = ""

    @property
    def label(self) -> str:
        """The language in small letters, "" without one."""
        word = re.match(r"\{?\.?([\w.+#-]+)", self.info.strip())
        return word[1].lower() if word else ""


def blocks_by_line(text: str) -> tuple[list[Block], str]:
    """(blocks, the prose outside them), where a fence is a line of its own, as in Markdown.

    A block ends at a line with the same mark, at least as long, and nothing else; one that never ends goes up to the end of the text.
    """
    blocks: list[Block] = []
    prose: list[str] = []
    mark, info, before, body, above = "", "", "", [], ""
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        fence = _FENCE_LINE.match(line)
        if mark:
            if fence and fence[1].startswith(mark) and not fence[2].strip():
                blocks.append(Block(info, "".join(body), before))
                mark = ""
            else:
                body.append(line)
        elif fence and fence[1][0] not in fence[2]:
            mark, info, before, body, above = fence[1], fence[2], above, [], ""
        else:
            prose.append(line)
            above = line.strip() or above
    if mark:
        blocks.append(Block(info, "".join(body), before))
    return blocks, "".join(prose)
