"""From free text to one piece of LaTeX: the final answer of a mathematical text, without its surroundings.

| where the answer may stand                        | rule                                                                |
|---------------------------------------------------|---------------------------------------------------------------------|
| `<think>…</think>` and its like, end marks        | no part of the answer                                               |
| \\boxed{…}, \\fbox{…}                             | the last; several in a row, joined by commas or "and", are one list |
| "the answer is …", "Answer: …", "#### …"          | the last; up to the end of the line or sentence                     |
| $…$, $$…$$, \\(…\\), \\[…\\]                      | the last; several joined by commas, "and", "or" are one list        |
| **…** around something with a digit or one letter | the last                                                            |
| no mark at all                                    | the last line that is not empty                                     |

Of a phrase the mathematics in it counts; of words around a number, the number, when it is the only one. What is written in plain text or
Markdown is turned into LaTeX: `**` marks, `2 1/4`, `1,000`, `sqrt(2)`, `x**2`, `3*4`, π ≤ ∪ ½ ². Units are taken off; where both sides
carry one of the common units, they must be the same.
"""

from __future__ import annotations

import re

from prefkit.verify.answer_text import without_thoughts

_MAX_TEXT, _MAX_ANSWER = 50_000, 2_000
_END_MARK = re.compile(r"<\|[^|<>\n]{1,40}\|>|</s>")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)|\\boxed\s+(?P<bare>[^\s{}$\\]+)")
_SAYS = re.compile(r"(?:\b(?:final\s+)?answer(?:\s+is|\s*:|\s*=)|^\s*####)[\s:*_]*", re.IGNORECASE | re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<!\d)\.(?=\s|$)|\.(?=\s*$)|\.\s+(?=[A-Z])|\n")
_MATH = re.compile(r"\$\$(.{1,2000}?)\$\$|(?<![\\$])\$([^$\n]{1,2000}?)(?<!\\)\$|\\\((.{1,2000}?)\\\)|\\\[(.{1,2000}?)\\\]", re.DOTALL)
_BOLD = re.compile(r"(?<![\w)*])\*\*([^*\n]{1,200})\*\*(?![\w(*])|(?<!\w)__([^_\n]{1,200})__(?!\w)")
_JOINED = re.compile(r"\s*(?:,|;|,?\s*\band\b|,?\s*\bor\b)?\s*")
_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|[-+]?\.\d+"
_NUMBERS = re.compile(rf"(?<![\w.,/])[$€£¥]?\s?((?:{_NUMBER})(?:\s+\d+/\d+|/\d+)?)(?![\w/]|\.\d|,\d)\s?%?")
_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3}(?:(?:,|\{,\}|\\,)\d{3})+)(?![\d,])")
_MIXED = re.compile(r"(?<![\w.}])(-?)(\d+)[ \t]+(\d+)\s*/\s*(\d+)(?!\w)")
_COMMANDS = re.compile(r"\\(?:textbf|mathbf|boldsymbol|bm|textit|mathit|mathrm|operatorname|text|rm|displaystyle|mbox)\s*\{([^{}]*)\}")
_SPACES = re.compile(r"\\[,;:! ]|\\q?quad\b|~|\\displaystyle\b|\\(?:left|right)\s*\.")
_FUNCTION = re.compile(r"(?<![\\A-Za-z])(sqrt|pi|sin|cos|tan|log|ln|infinity|inf|alpha|beta|theta)(?![A-Za-z])")
_OPTION = re.compile(r"^\(?([A-H])[).:]\s*(?=\S)")
_ELLIPSIS = re.compile(r"\\(?:l|c|v|d)?dots\b|\.\.\.|…")
_SYMBOLS = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "×": "\\times ", "·": "\\cdot ", "⋅": "\\cdot ", "÷": "/", "π": "\\pi ", "∞": "\\infty ",
        "≤": "\\le ", "≥": "\\ge ", "≠": "\\ne ", "∪": "\\cup ", "∩": "\\cap ", "°": "^\\circ ", "±": "\\pm ", "½": "\\frac12 ",
        "¼": "\\frac14 ", "¾": "\\frac34 ", "²": "^2", "³": "^3", "∅": "\\emptyset ", "∈": "\\in ", "θ": "\\theta ", "√": "\\sqrt ",
        "，": ",", "\u00a0": " ", "\u2009": " ", "\u202f": " ",
    }
)  # fmt: skip
_UNITS = {
    "cm": "cm centimeter centimetre", "mm": "mm millimeter millimetre", "km": "km kilometer kilometre", "m": "m meter metre",
    "kg": "kg kilogram kilo", "g": "g gram", "mg": "mg milligram", "s": "s sec second", "min": "min minute", "h": "h hr hour",
    "day": "day", "week": "week", "year": "year", "inch": "inch inches in", "foot": "foot feet ft", "mile": "mile mi",
    "euro": "euro €", "dollar": "dollar \\$", "degree": "degree ^\\circ", "percent": "percent % \\%", "liter": "l liter litre",
}  # fmt: skip
_UNIT_OF = {word: unit for unit, words in _UNITS.items() for word in words.split()}
_UNIT = re.compile(
    r"(?<=[\d}\s])\s*(?:\\text\s*\{\s*)?((?:(?<=[\s{])[A-Za-z]|[A-Za-z]{2,})|\^\s*\{?\\circ\s*\}?)\s*\}?\s*(?:\^\s*\{?(\d)\}?)?$"
)
_WORDS = frozenset(
    {"no solution", "no solutions", "no real solution", "no real solutions", "does not exist", "infinitely many", "none of these"}
    | {"infinitely many solutions", "not enough information", "cannot be determined"}
)


def final_answer(text: str) -> str | None:
    """The final answer in a model's text, still as it stands there; None where there is none.

    >>> final_answer("So x = 3, and the answer is \\\\boxed{\\\\frac{1}{3}}.")
    '\\\\frac{1}{3}'
    """
    text = _END_MARK.split(without_thoughts(text[-_MAX_TEXT:]), maxsplit=1)[0].strip()
    found = _last_boxed(text)
    if found is None:
        said = [match.end() for match in _SAYS.finditer(text)]
        rest = _SENTENCE_END.split(text[said[-1] :].lstrip(), maxsplit=1)[0] if said else ""
        found = _of_phrase(rest) if rest.strip() else None
    if found is None:
        found = _last_math(text) or _last_bold(text)
    if found is None:
        found = _of_phrase(text.rpartition("\n")[2])
    return found if found is not None and 0 < len(found.strip()) <= _MAX_ANSWER else None


def to_latex(text: str) -> str:
    """The mathematics in `text` as LaTeX that a parser can take as a whole: without marks, spacing, labels, thousands separators."""
    text = text.translate(_SYMBOLS).strip()
    boxed = _last_boxed(text)
    text = (boxed if boxed is not None else text).strip()
    math = _MATH.fullmatch(text.rstrip(". "))
    text = next(filter(None, math.groups())).strip() if math else text
    text = text.replace("**", "^") if re.search(r"[\w)]\*\*[\w(-]", text) else text.replace("**", "")
    text = re.sub(r"\^([\w.]+)\^([\w.]+)", r"^{\1^{\2}}", text.strip("`_ \t\n").rstrip(".,;: "))
    for _ in range(3):
        text = _COMMANDS.sub(lambda match: match[1] if _is_plain(match[1]) else match[0], text)
    text = _SPACES.sub(" ", _THOUSANDS.sub(lambda match: re.sub(r"\D", "", match[1]), text))
    text = _OPTION.sub("", text) if len(text) > 3 else text
    text = text.lstrip("€£¥").removeprefix("\\$").removeprefix("$").strip().strip("$")
    text = _MIXED.sub(_mixed, text)
    text = re.sub(r"\\?%|\s*\bpercent\b", r"\\%", text)
    text = _roots(_FUNCTION.sub(lambda match: "\\" + {"infinity": "infty", "inf": "infty"}.get(match[1], match[1]), text))
    text = re.sub(r"(?<=[\w)])\s*\*\s*(?=[\w(\\])", r"\\cdot ", text)
    text = re.sub(r"(\d)\s*(?:to|:)\s*(?=\d)", r"\1:", text)
    return re.sub(r"\s*(?<!\\)\b(?:and|or)\b\s*", ", ", text) if _is_list(text) else text


def word_of(text: str) -> str | None:
    """An answer that is a word and no mathematics (even, B, no solution), in small letters; None for anything else."""
    text = re.sub(r"\\(?:text|textbf|mathrm|mathbf|textit)\s*\{([^{}]*)\}", r"\1", text).strip().strip("$*_`.,;:\"' ").strip()
    option = re.fullmatch(r"\(?([A-Za-z])\)?[.:]?", text)
    text = option[1] if option else text
    small = " ".join(text.lower().split())
    if option:
        return small if option[1].isupper() else None
    plain = re.fullmatch(r"[a-z]{3,20}|no", small) and not _FUNCTION.fullmatch(small)
    return small if plain or small in _WORDS else None


def is_prose(latex: str) -> bool:
    """Whether there are words in it, which a parser would take for products of letters."""
    words = re.findall(r"[A-Za-z]{3,}", _FUNCTION.sub(" ", re.sub(r"\\[A-Za-z]+|\{[a-z]?matrix\}", " ", latex)))
    return len(words) > 1 or any(len(word) > 4 for word in words)


def has_ellipsis(text: str) -> bool:
    """Whether something is left to the reader: no comparison can tell what."""
    return bool(_ELLIPSIS.search(text))


def unit_of(text: str) -> str | None:
    """The common unit at the end of an answer, with its power: `5 cm`, `5 centimeters^2`; None where there is none."""
    match = _UNIT.search(text.translate(_SYMBOLS).strip().strip("$.* "))
    if match is None:
        return None
    word = re.sub(r"[\s{}]", "", match[1]).lower()
    unit = _UNIT_OF.get(word) or _UNIT_OF.get(word.removesuffix("s"))
    return f"{unit}{match[2] or ''}" if unit else None


def without_unit(latex: str) -> str:
    """The answer without a common unit written in plain letters behind a number."""
    match = _UNIT.search(latex)
    return latex[: match.start()].rstrip() if match and unit_of(latex) and re.search(r"\d", latex[: match.start()]) else latex


def _last_boxed(text: str) -> str | None:
    """What the last box holds; boxes in a row joined to a list."""
    boxes: list[tuple[int, int, str]] = []
    for match in _BOXED.finditer(text):
        if match["bare"]:
            boxes.append((match.start(), match.end(), match["bare"]))
            continue
        end = _closing(text, match.end())
        if end is not None and (not boxes or match.start() >= boxes[-1][1]):
            boxes.append((match.start(), end + 1, text[match.end() + 1 : end]))
    if not boxes:
        return None
    chosen = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        between = text[box[1] : chosen[0][0]].replace("$", "")
        if not (between.strip() and _JOINED.fullmatch(between)):
            break
        chosen.insert(0, box)
    return ", ".join(box[2] for box in chosen)


def _closing(text: str, start: int) -> int | None:
    """The place of the brace that closes the one at `start`."""
    depth = 0
    for i in range(start, min(len(text), start + 2 * _MAX_ANSWER)):
        if text[i] in "{}" and (i == 0 or text[i - 1] != "\\"):
            depth += 1 if text[i] == "{" else -1
            if depth == 0:
                return i
    return None


def _last_math(text: str) -> str | None:
    """The last formula; formulas in a row joined to a list."""
    found = [(match.start(), match.end(), next(filter(None, match.groups()))) for match in _MATH.finditer(text)]
    if not found:
        return None
    chosen = [found[-1]]
    for formula in reversed(found[:-1]):
        between = text[formula[1] : chosen[0][0]]
        if not (between.strip() and _JOINED.fullmatch(between)):
            break
        chosen.insert(0, formula)
    return ", ".join(formula[2].strip() for formula in chosen)


def _last_bold(text: str) -> str | None:
    found = [next(filter(None, match.groups())) for match in _BOLD.finditer(text)]
    fit = [bold for bold in found if re.search(r"\d", bold) or word_of(bold)]
    return _of_phrase(fit[-1]) if fit else None


def _of_phrase(phrase: str) -> str | None:
    """The mathematics of a phrase: its formulas, the whole where it has no words, or its only number."""
    phrase = phrase.strip()
    math = _last_math(phrase)
    if math is not None:
        return math
    plain = phrase.strip("*_` ").rstrip(".,;: ")
    if not plain:
        return None
    if word_of(plain) or not re.search(r"[A-Za-z]{3,}", _FUNCTION.sub("", re.sub(r"\\[A-Za-z]+", "", plain))):
        return plain
    bold = _last_bold(phrase) if plain != phrase and "**" in plain else None
    numbers = [match[0] for match in _NUMBERS.finditer(plain)]
    if bold is None and len(numbers) > 1 and _is_list(plain):
        return plain
    return bold if bold is not None else numbers[0].strip() if len(numbers) == 1 else None


def _is_plain(content: str) -> bool:
    """Whether the content of \\text{…} and its like is mathematics: a number, one letter, `and`, `or`."""
    return bool(re.fullmatch(r"\s*(?:[-\d.,/ ]+|[A-Za-z]|and|or|\([A-H]\)\s*)\s*", content))


def _is_list(text: str) -> bool:
    """Whether `and`, `or` join parts without words in them."""
    parts = re.split(r"\b(?:and|or)\b|,", text)
    return len(parts) > 1 and all(part.strip() and not re.search(r"(?<![\\A-Za-z])[A-Za-z]{3,}", part) for part in parts if part.strip())


def _mixed(match: re.Match[str]) -> str:
    """2 1/4 as a sum; with a fraction that is no proper one it is no number, and is left to fail."""
    sign, whole, over, under = match.groups()
    proper = len(under) < 10 and 0 < int(over) < int(under) if len(over) < 10 else False
    return f"{sign}({whole}+\\frac{{{over}}}{{{under}}})" if proper else "\\text{no number}\\frac"


def _roots(text: str) -> str:
    """sqrt(…) with its brackets as braces."""
    for _ in range(20):
        place = re.search(r"\\sqrt\s*\(", text)
        if place is None:
            break
        depth = 0
        for i in range(place.end() - 1, len(text)):
            depth += {"(": 1, ")": -1}.get(text[i], 0)
            if depth == 0:
                text = f"{text[: place.start()]}\\sqrt{{{text[place.end() : i]}}}{text[i + 1 :]}"
                break
        else:
            break
    return text
