"""Arithmetic that a model wrote out as text: `3 * (4 + 1) = 15`, `1,200.50 × 19% = 228.095`.

| what                                    | rule                                                                                     |
|-----------------------------------------|------------------------------------------------------------------------------------------|
| numbers                                 | decimal, exact; `1,200.50` has thousands; `19%` is 0.19; a currency's sign is passed over |
| operators                               | `+ - * / ^` and brackets, also written − × · ÷ and `**`; powers bind to the right         |
| exponents                               | whole numbers from -20 to 20                                                             |
| anything else, division by zero         | no value                                                                                 |
| `1,5`                                   | no value: a decimal comma cannot be told from a list                                     |
| an equation in a sentence               | the longest arithmetic that ends at its `=`, and the one that begins behind it           |

Nothing is evaluated as a program; a text of more than 2,000 characters, 50 levels or 100 digits has no value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_MAX_TEXT, _MAX_LEVELS, _MAX_DIGITS, _MAX_POWER, _MAX_BITS = 2_000, 50, 100, 20, 20_000
MAX_EQUATIONS, _MAX_STARTS, _MAX_RUN = 50, 20, 200
_NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?![\d])|\d+)(?:\.\d+)?|\.\d+"
_TOKEN = re.compile(rf"\s*(?:(?P<number>{_NUMBER})|(?P<mark>\*\*|[-+*/^()%−×·÷])|(?P<sign>[$€£¥]))")
_SAME = {"−": "-", "×": "*", "·": "*", "÷": "/", "**": "^"}
_EQUALS = re.compile(r"(?<![<>!=≈])=(?!=)")
_RUN_CHARACTERS = r"[\d\s.,()+\-*/^%−×·÷$€£¥]"
_DECIMAL_COMMA = re.compile(r",\d")
_RUN_BEHIND = re.compile(rf"{_RUN_CHARACTERS}{{1,400}}")


class NoValue(ValueError):
    """A text that is no arithmetic, or arithmetic without a value."""


@dataclass(frozen=True, slots=True)
class Equation:
    """One stated equation. left: None where what stands before the `=` is no arithmetic (a name). text: as it was stated, cut short."""

    left: Fraction | None
    right: Fraction
    text: str


def value_of(text: str) -> Fraction:
    """The value of an arithmetic expression. Raises NoValue.

    >>> value_of("0.1 + 0.2")
    Fraction(3, 10)
    """
    if len(text) > _MAX_TEXT:
        raise NoValue("too long")
    reader = _Reader(_tokens(text))
    value = reader.sum(0)
    if reader.position != len(reader.tokens):
        raise NoValue("not arithmetic")
    return value


def equations(text: str) -> list[Equation]:
    """The equations that a text states, in order. Never raises.

    >>> [(str(e.left), str(e.right)) for e in equations("Net: 3 * 4 = 12 EUR, so total = 12")]
    [('12', '12'), ('None', '12')]
    """
    found = []
    for sign in list(_EQUALS.finditer(text))[:MAX_EQUATIONS]:
        right = _value_behind(text[sign.end() : sign.end() + _MAX_RUN])
        if right is None:
            continue
        before = text[max(0, sign.start() - _MAX_RUN) : sign.start()]
        found.append(Equation(_value_before(before), right, " ".join(text[max(0, sign.start() - 40) : sign.end() + 20].split())))
    return found


def _value_behind(text: str) -> Fraction | None:
    """Of the longest beginning that is arithmetic: `15.` and `15 (of 20)` begin with 15."""
    run = _RUN_BEHIND.match(text)
    if run is None:
        return None
    for token in reversed(list(_TOKEN.finditer(run[0]))[:_MAX_STARTS]):
        value = _value_or_none(run[0][: token.end()])
        if value is not None:
            return None if _DECIMAL_COMMA.match(text, token.end()) else value
    return None


def _value_before(text: str) -> Fraction | None:
    """Of the longest end that is arithmetic with an operator; a bare number states nothing that could be wrong."""
    start = len(text)
    while start and re.match(_RUN_CHARACTERS, text[start - 1]):
        start -= 1
    run = text[start:]
    before = ""
    for token in list(_TOKEN.finditer(run))[:_MAX_STARTS]:
        begins = not before or before[-1] in "0123456789)%"  # `2 3 * 4` may begin at its 3, `2 + 3 * 4` may not
        before = token[0]
        rest = run[token.start() :].strip(" ,\n")
        if begins and (value := _value_or_none(rest)) is not None:
            return value if re.search(r"[-+*/^%−×·÷]", rest[1:]) else None
    return None


def _value_or_none(text: str) -> Fraction | None:
    try:
        return value_of(text)
    except NoValue:
        return None


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.strip()
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise NoValue("not arithmetic")
        if token["number"]:
            if len(token["number"]) > _MAX_DIGITS:
                raise NoValue("a number is too long")
            tokens.append(token["number"].replace(",", ""))
        elif token["mark"]:
            tokens.append(_SAME.get(token["mark"], token["mark"]))
        position = token.end()
    return tokens


class _Reader:
    """Recursive descent over tokens."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0

    def sum(self, level: int) -> Fraction:
        if level > _MAX_LEVELS:
            raise NoValue("nested too deeply")
        value = self._product(level)
        while (mark := self._next("+-")) is not None:
            other = self._product(level)
            value = _bounded(value + other if mark == "+" else value - other)
        return value

    def _product(self, level: int) -> Fraction:
        value = self._signed(level)
        while (mark := self._next("*/")) is not None:
            other = self._signed(level)
            if mark == "/" and not other:
                raise NoValue("division by zero")
            value = _bounded(value * other if mark == "*" else value / other)
        return value

    def _signed(self, level: int) -> Fraction:
        negative = False
        while (mark := self._next("+-")) is not None:
            negative ^= mark == "-"
        value = self._power(level)
        return -value if negative else value

    def _power(self, level: int) -> Fraction:
        base = self._single(level)
        if self._next("^") is None:
            return base
        if level > _MAX_LEVELS:
            raise NoValue("nested too deeply")
        negative = self._next("-") is not None
        exponent = self._power(level + 1)
        if exponent.denominator != 1 or exponent > _MAX_POWER or (not base and negative):
            raise NoValue("no such power")
        return _bounded(base ** (-exponent.numerator if negative else exponent.numerator))

    def _single(self, level: int) -> Fraction:
        if self._next("(") is not None:
            value = self.sum(level + 1)
            if self._next(")") is None:
                raise NoValue("a bracket is not closed")
        elif self.position < len(self.tokens) and self.tokens[self.position][0] in "0123456789.":
            value = Fraction(self.tokens[self.position])
            self.position += 1
        else:
            raise NoValue("not arithmetic")
        while self._next("%") is not None:
            value /= 100
        return value

    def _next(self, marks: str) -> str | None:
        """The next token where it is one of these marks, which is passed then."""
        if self.position < len(self.tokens) and self.tokens[self.position] in marks:
            self.position += 1
            return self.tokens[self.position - 1]
        return None


def _bounded(value: Fraction) -> Fraction:
    if value.numerator.bit_length() + value.denominator.bit_length() > _MAX_BITS:
        raise NoValue("too large")
    return value
