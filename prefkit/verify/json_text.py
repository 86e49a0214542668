"""JSON in a model's free text, read strictly.

| where it may stand                          | rule                                                                                      |
|---------------------------------------------|-------------------------------------------------------------------------------------------|
| the whole text                              | tried first; several documents one after the other (JSON lines) count, each for itself    |
| `<tool_call>…</tool_call>` and its like     | each tag's body; also unclosed                                                            |
| `<answer>…</answer>` and its like           | the same                                                                                  |
| fences, any label or none, also unclosed    | a block counts when it begins like JSON                                                   |
| prose                                       | every `{…}` and `[…]` that is JSON, or begins like it (`{"`, `[{` …) and then is not       |
| `<think>…</think>` and its like             | not part of the answer (see answer_text.py)                                               |
| after `<|im_end|>` and its like             | not part of the answer                                                                    |
| a JSON text that holds JSON                 | where the text as a whole is one: what it holds, once                                     |

| what the JSON holds                         | what is said of it                                                                        |
|---------------------------------------------|-------------------------------------------------------------------------------------------|
| one key twice in an object                  | policy: duplicate key (readers of JSON disagree which one counts)                         |
| NaN, Infinity, a number past a double's     | policy: number out of range                                                               |
| a number of more than 400 digits            | policy: number too long                                                                   |
| more than 64 levels                         | policy: nested too deeply                                                                 |
| a text of more than 200,000 characters      | policy: answer too long                                                                   |
| more than 1,000 documents                   | policy: more than 1000 JSON documents                                                     |
| anything else that RFC 8259 does not take   | not JSON: … at character n                                                                |

Integers are exact at any size, and 1 is not true. Time is linear in the text, whatever it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from prefkit.verify.answer_text import after_label, fenced_parts, next_fence, without_thoughts

MAX_TEXT = 200_000
"""Characters of an answer, without its thoughts."""
MAX_DEPTH = 64
MAX_DIGITS = 400
MAX_DOCUMENTS = 1000
_TOO_DEEP = f"nested too deeply: more than {MAX_DEPTH} levels"
_NO_JSON = "not JSON: no object or list"
_TOO_MANY = f"more than {MAX_DOCUMENTS} JSON documents"
_LARGEST = Decimal("1.7976931348623157e308")
_TAGS = {"tag": "tool_calls?|function_calls?|functioncall|tool_use", "answer": "answer|json|result|output"}
_TAG = {place: re.compile(rf"<\|?({names})\|?>", re.IGNORECASE) for place, names in _TAGS.items()}
_TAG_END = {place: re.compile(rf"<(?:\|?/|/\|?)(?:{names})\|?>", re.IGNORECASE) for place, names in _TAGS.items()}
_END_MARK = re.compile(r"<\|(?:im_end|im_start|endoftext|end_of_text|eot_id|eom_id|eot|end|end_of_turn|return)\|>|</s>|<end_of_turn>|<eos>")
_OPENING = re.compile(r"[\[{]")
_MEANT = re.compile(r'\{\s*"|\[\s*\{\s*"')
# A text that does not close is taken to the end, so that no place is looked at twice.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_BETWEEN = re.compile(r"[\s,;]*")
_BLANK = " \t\r\n\ufeff"
_LEAST_SCANNED = 50_000
"""Characters to look through for brackets that close; in a long text two passes over it."""


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON document. problem: why it is not to be used, "" where it is fit. policy: it is JSON, but breaks a rule of the table.

    value may be set beside a policy problem, and text (how it was written) is there always: to tell what the document was meant to be.
    """

    value: Any = None
    problem: str = ""
    policy: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Documents that stand in one kind of place, in their order. name: whole, tag, answer, fence or prose."""

    name: str
    documents: list[Document]


@dataclass(slots=True)
class _Faults:
    """What the decoder's hooks see on their way."""

    found: list[str] = field(default_factory=list)


def read_json(text: str, exact: bool = False) -> Document:
    """One JSON document. exact: numbers with a point or an exponent become Decimal, not float. Never raises.

    >>> read_json('{"a": 1, "a": 2}').problem
    'duplicate key: "a"'
    """
    text = text.strip(_BLANK)
    start = _OPENING.match(text)
    if start and _closing(text, 0)[1] > MAX_DEPTH:
        return Document(problem=_TOO_DEEP, policy=True, text=text)
    faults = _Faults()
    try:
        value = _decoder(faults, exact).decode(text)
    except json.JSONDecodeError as error:
        return Document(problem=f"not JSON: {error.msg[:1].lower()}{error.msg[1:]} at character {error.pos + 1}", text=text)
    except (RecursionError, ValueError) as error:  # neither is known to happen behind the checks above
        return Document(problem=f"not JSON: {type(error).__name__}", text=text)
    return Document(value, faults.found[0] if faults.found else "", bool(faults.found), text)


def places(text: str, exact: bool = False) -> Iterator[Place]:
    """Where JSON stands in an answer, the surest kind of place first. Kinds without a document are left out. Never raises.

    >>> [place.documents[0].value for place in places("It is {'a'}, or rather {\\"a\\": 1}.")]
    [{'a': 1}]
    """
    body = _END_MARK.split(without_thoughts(text), maxsplit=1)[0].strip(_BLANK)
    if len(body) > MAX_TEXT:
        yield Place("whole", [Document(problem=f"answer too long: more than {MAX_TEXT} characters", policy=True)])
        return
    # As it is first: the marks may stand in a text of the JSON.
    for attempt in dict.fromkeys((text.strip(_BLANK), body) if len(text) <= MAX_TEXT else (body,)):
        whole = _sequence(attempt, exact)
        if whole and (whole[-1].policy or not whole[-1].problem):
            yield Place("whole", whole)
            return
    for name in _TAGS:
        tagged = [found for part in _tagged(body, name) for found in _sequence(part, exact) or [Document(problem=_NO_JSON, text=part)]]
        if tagged:
            yield Place(name, tagged)
    fenced = list(_fenced(body, exact))
    if fenced:
        yield Place("fence", fenced)
    prose = list(_in_prose(body, exact))
    if prose:
        yield Place("prose", prose)


def canonical(value: Any) -> Any:
    """A hashable that equals another's exactly where the two JSON values are equal: numbers by value, true is not 1, keys in any order."""
    if isinstance(value, bool) or value is None:
        return ("constant", str(value))
    if isinstance(value, dict):
        return ("object", frozenset((key, canonical(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(map(canonical, value)))
    return value


def uniform(problem: str) -> str:
    """A document's problem without the place, so that failures can be grouped."""
    return problem.partition(" at character")[0]


def shown(value: Any, characters: int = 40) -> str:
    """A value as JSON for a reason or feedback: on one line, cut short, printable whatever it holds."""
    text = str(value) if isinstance(value, Decimal) else json.dumps(_cut(value, characters), ensure_ascii=False)
    return printable(text if len(text) <= characters else text[: characters - 1] + "…")


def printable(text: str) -> str:
    """The text without what no terminal or file takes: half characters and control characters become question marks."""
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)


def _cut(value: Any, characters: int) -> Any:
    """As much of a value as can be shown, so that a huge one is not written out first."""
    if isinstance(value, str):
        return value[: characters + 1]
    if isinstance(value, list):
        return [_cut(item, characters) for item in value[:characters]] if characters > 0 else []
    if isinstance(value, dict):
        return {str(key)[:characters]: _cut(item, characters // 2) for key, item in list(value.items())[:characters]} if characters else {}
    if isinstance(value, Decimal):
        return float(value)
    return value if not isinstance(value, int) or abs(value) < 10**MAX_DIGITS else "a long number"


def _decoder(faults: _Faults, exact: bool) -> json.JSONDecoder:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) < len(items):
            seen: set[str] = set()
            twice = next(key for key, _ in items if key in seen or seen.add(key))
            faults.found.append(f"duplicate key: {shown(twice)}")
        return found

    def integer(digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            faults.found.append(f"number too long: more than {MAX_DIGITS} digits")
            return 0
        return int(digits)

    def real(digits: str) -> float | Decimal:
        if len(digits) > MAX_DIGITS:
            faults.found.append(f"number too long: more than {MAX_DIGITS} digits")
            return 0.0
        try:
            number = Decimal(digits)
        except InvalidOperation:  # an exponent past what even Decimal has
            number = Decimal("Infinity")
        if not number.is_finite() or abs(number.adjusted()) > MAX_DIGITS or abs(number) > _LARGEST:
            faults.found.append("number out of range")
            return 0.0
        return number if exact else float(digits)

    def constant(name: str) -> float:
        faults.found.append(f"number out of range: {name}")
        return 0.0

    return json.JSONDecoder(object_pairs_hook=pairs, parse_int=integer, parse_float=real, parse_constant=constant)


def _closing(text: str, start: int) -> tuple[int | None, int, int]:
    """(end of the bracket that opens at `start`, None where it does not close; deepest level; where the search stopped)."""
    depth = deepest = 0
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if mark in "[{":
            depth += 1
            deepest = max(deepest, depth)
            if depth > MAX_DEPTH:
                return None, depth, token.end()
        elif mark in "]}":
            depth -= 1
            if depth == 0:
                return token.end(), deepest, token.end()
    return None, deepest, len(text)


def _sequence(text: str, exact: bool) -> list[Document]:
    """The documents that a text is made of, up to the first that cannot be read; none where it does not begin like JSON."""
    text = text.strip(_BLANK)
    if text[:1] == '"':
        outer = read_json(text, exact)
        inner = outer.value.strip(_BLANK) if isinstance(outer.value, str) else ""
        return [read_json(inner, exact)] if inner[:1] in ("{", "[") else []
    documents: list[Document] = []
    position = 0
    while position < len(text):
        if text[position] not in "[{":
            extra = Document(problem=f"not JSON: extra data at character {position + 1}", text=text[position:])
            return [*documents, extra] if documents else []
        end, _, _ = _closing(text, position)
        document = read_json(text[position:end], exact)
        documents.append(document)
        if end is None or document.problem:
            return documents
        if len(documents) > MAX_DOCUMENTS:
            return [Document(problem=_TOO_MANY, policy=True, text=text)]
        between = _BETWEEN.match(text, end)
        assert between is not None, "the pattern takes the empty text"
        position = between.end()
    return documents


def _tagged(text: str, place: str) -> Iterator[str]:
    """What stands in each tag, up to its end, to the next that begins, or to the end of the text."""
    begins = list(_TAG[place].finditer(text))
    for i, begin in enumerate(begins):
        part = text[begin.end() : begins[i + 1].start() if i + 1 < len(begins) else len(text)]
        part = _TAG_END[place].split(part, maxsplit=1)[0]
        fences = fenced_parts(part)
        part = _without_label(fences[1]) if len(fences) > 1 and not fences[0].strip() else part
        if part.strip() or i + 1 == len(begins):  # <tool_calls><tool_call>…: the outer one holds nothing itself
            yield part


def _fenced(text: str, exact: bool) -> Iterator[Document]:
    """What stands in each fence. A mark in a text of the JSON ends none."""
    left = max(_LEAST_SCANNED, 2 * len(text))
    opening = next_fence(text, 0)
    while opening is not None:
        closing = next_fence(text, opening.end())
        block = text[opening.end() : closing.start() if closing else len(text)]
        body = _without_label(block).strip(_BLANK)
        documents = _sequence(body, exact)
        if closing and left > 0 and body[:1] in ("{", "[") and documents[-1].problem and not documents[-1].policy:
            start = opening.end() + block.index(body)
            end, _, stopped = _closing(text, start)
            left -= stopped - start
            if end is not None and end > closing.start() and not (whole := read_json(text[start:end], exact)).problem:
                documents, closing = [whole], next_fence(text, end)
        yield from documents
        opening = next_fence(text, closing.end()) if closing else None


def _without_label(block: str) -> str:
    block = block.strip(_BLANK)
    return block if block[:1] in '{["' else after_label(block)[1]


def _in_prose(text: str, exact: bool) -> Iterator[Document]:
    """Every bracket that is JSON, or begins like it and is not. What stands in one that does not begin like it is looked at too."""
    left = max(_LEAST_SCANNED, 2 * len(text))
    position = count = 0
    while left > 0 and (opening := _OPENING.search(text, position)):
        start = opening.start()
        end, deepest, stopped = _closing(text, start)
        left -= stopped - start
        position = start + 1
        if deepest > MAX_DEPTH:
            yield Document(problem=_TOO_DEEP, policy=True, text=text[start:])
            return
        meant = _MEANT.match(text, start) is not None
        if end is None and not meant:
            continue
        document = read_json(text[start:end], exact)
        if document.problem and not document.policy and not meant:
            continue
        count += 1
        yield document if count <= MAX_DOCUMENTS else Document(problem=_TOO_MANY, policy=True, text=text[start:])
        if end is None or count > MAX_DOCUMENTS:
            return
        position = end
