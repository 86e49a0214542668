"""What rules are about: places in the document, and numbers made of them.

| term                                        | number                                                                              |
|---------------------------------------------|-------------------------------------------------------------------------------------|
| `12.5`                                      | itself                                                                              |
| `total`                                     | at that path (see paths.py)                                                         |
| `{sum: "items[*].price"}`                   | the sum of what the path leads to; of no items 0                                    |
| `{sum: [net, vat, 3]}`                      | the sum of terms                                                                    |
| `{sum: {each: "items[*]", of: TERM}}`       | the sum over the items, with the paths of TERM read in the item                     |
| `{product: [TERM, …]}`                      | the product of terms                                                                |
| `{difference: [a, b]}`, `{quotient: [a, b]}` | a - b, a / b                                                                       |
| `{count: "items[*]"}`                       | how many there are                                                                  |
| `{least: …}`, `{greatest: …}`, `{average: …}` | of what the path leads to, or of a list of terms                                   |
| `{rounded: {value: TERM, digits: 2}}`       | half away from zero, as in commerce                                                 |

Numbers are exact (0.1 + 0.2 is 0.3). A text that looks like a number is none. Inside `each`, paths begin at the item, and at the document
where they begin with `$.`. Where a number is missing, the term has none; in a rule with `optional: true` one of many is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from prefkit.verify.budget import Budget
from prefkit.verify.json_text import shown
from prefkit.verify.paths import MISSING, Path, read_path
from prefkit.verify.yaml_lines import Node

_MAX_BITS = 50_000


@dataclass(frozen=True, slots=True)
class Scope:
    """What a check looks at. item: MISSING outside `each`. where: the item's place. optional: a value that is not there breaks nothing."""

    document: Any
    budget: Budget
    item: Any = MISSING
    where: str = ""
    optional: bool = False

    def find(self, path: Path) -> Iterator[tuple[str, Any]]:
        """(where, value) of each place; MISSING where there is nothing."""
        inside = self.item is not MISSING and not path.root
        for where, value in path.find(self.item if inside else self.document, self.where if inside else ""):
            self.budget.spend()
            yield where or "$", value

    def inside(self, where: str, item: Any) -> Scope:
        return replace(self, item=item, where=where)


def absent(value: Any) -> bool:
    """Whether nothing is there; null is nothing."""
    return value is MISSING or value is None


def no_group(where: str, value: Any) -> bool:
    """Whether there is no list (or object) at all whose every item was asked for."""
    return value is MISSING and where.endswith(("[*]", ".*"))


def not_there(where: str, value: Any) -> str:
    """That a place has nothing, in words."""
    if no_group(where, value):
        return f"{where.removesuffix('[*]').removesuffix('.*') or '$'} is missing, or no list"
    return f"{where} is missing"


class NoNumber(Exception):
    """A term has no value. missing: because nothing is there."""

    def __init__(self, said: str, missing: bool = False) -> None:
        super().__init__(said)
        self.missing = missing


Term = Callable[[Scope], Fraction]


def path_of(node: Node, many: bool = True) -> Path:
    """Raises PlaceError."""
    text = node.text("a path such as total or items[*].price")
    try:
        path = read_path(text)
    except ValueError as error:
        raise node.error(str(error)) from None
    if path.many and not many:
        raise node.error(f"{path.text} leads to several places; use sum, least, greatest, count or each")
    return path


def number_of(value: Any) -> Fraction | None:
    """A JSON number as a fraction, None for what is none."""
    return Fraction(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else None


def written(number: Fraction) -> str:
    """A number as people write it: exact where it ends soon, else to six places."""
    if abs(number) >= 10**15:
        return "a number of more than 15 digits"
    text = f"{Decimal(number.numerator) / Decimal(number.denominator):.6f}"
    return text.rstrip("0").rstrip(".")


def compile_term(node: Node) -> Term:
    """Raises PlaceError for what is no term."""
    if isinstance(node.value, int | Decimal) and not isinstance(node.value, bool):
        constant = Fraction(node.value)
        return lambda _: constant
    if isinstance(node.value, str):
        return _single(path_of(node, many=False))
    if not isinstance(node.value, dict) or len(node.value) != 1:
        raise node.error(f"expected a number, a path, or one of {', '.join(_OPERATIONS)}")
    (name, inner), *_ = node.value.items()
    if name not in _OPERATIONS:
        raise inner.error(f"unknown operation {name}; there is: {', '.join(_OPERATIONS)}")
    return _OPERATIONS[name](inner)


def _single(path: Path) -> Term:
    def single(scope: Scope) -> Fraction:
        for where, value in scope.find(path):
            return _number_at(where, value)
        raise NoNumber(f"{path.text} is missing", missing=True)

    return single


def _number_at(where: str, value: Any) -> Fraction:
    number = number_of(value)
    if number is None:
        said = not_there(where, value) if absent(value) else f"{where} is no number: {shown(value)}"
        raise NoNumber(said, missing=absent(value))
    return number


def _all_of(node: Node) -> Callable[[Scope], list[Fraction]]:
    """The numbers of a path, of a list of terms, or of a term in each item."""
    if isinstance(node.value, str):
        path = path_of(node)

        def along(scope: Scope) -> list[Fraction]:
            found = scope.find(path)
            return [_number_at(where, value) for where, value in found if not _passed_over(scope, where, value)]

        return along
    if isinstance(node.value, dict):
        fields = node.fields(("each", "of"))
        each, of = path_of(fields["each"]), compile_term(fields["of"])

        def in_each(scope: Scope) -> list[Fraction]:
            found = []
            for where, item in scope.find(each):
                if item is MISSING:
                    raise NoNumber(not_there(where, item), missing=True)
                found.append(of(scope.inside(where, item)))
            return found

        return in_each
    terms = [compile_term(item) for item in node.items("terms")]
    return lambda scope: [term(scope) for term in terms]


def _passed_over(scope: Scope, where: str, value: Any) -> bool:
    return scope.optional and absent(value) and not no_group(where, value)


def _folded(fold: Callable[[list[Fraction]], Fraction], empty: Fraction | None = None) -> Callable[[Node], Term]:
    def compile_folded(node: Node) -> Term:
        numbers = _all_of(node)

        def folded(scope: Scope) -> Fraction:
            values = numbers(scope)
            if not values and empty is None:
                raise NoNumber("there are no numbers", missing=True)
            return fold(values) if values else empty or Fraction(0)

        return folded

    return compile_folded


def _sum(values: list[Fraction]) -> Fraction:
    total = Fraction(0)
    for value in values:
        total = _bounded(total + value)
    return total


def _product(values: list[Fraction]) -> Fraction:
    total = Fraction(1)
    for value in values:
        total = _bounded(total * value)
    return total


def _bounded(value: Fraction) -> Fraction:
    if value.numerator.bit_length() + value.denominator.bit_length() > _MAX_BITS:
        raise NoNumber("a number is too large")
    return value


def _pair(combine: Callable[[Fraction, Fraction], Fraction]) -> Callable[[Node], Term]:
    def compile_pair(node: Node) -> Term:
        terms = [compile_term(item) for item in node.items("two terms")]
        if len(terms) != 2:
            raise node.error(f"expected two terms, found {len(terms)}")
        return lambda scope: combine(terms[0](scope), terms[1](scope))

    return compile_pair


def _quotient(a: Fraction, b: Fraction) -> Fraction:
    if not b:
        raise NoNumber("a division by zero")
    return _bounded(a / b)


def _count(node: Node) -> Term:
    path = path_of(node)

    def count(scope: Scope) -> Fraction:
        number = 0
        for where, value in scope.find(path):
            if no_group(where, value):
                raise NoNumber(not_there(where, value), missing=True)
            number += value is not MISSING
        return Fraction(number)

    return count


def _rounded(node: Node) -> Term:
    fields = node.fields(("value",), ("digits",))
    term = compile_term(fields["value"])
    digits = fields["digits"].number("a number of digits", least=0) if "digits" in fields else 0
    if not isinstance(digits, int) or digits > 20:
        raise fields["digits"].error("expected a whole number of digits, up to 20")
    unit = Fraction(1, 10**digits)

    def rounded(scope: Scope) -> Fraction:
        value = term(scope)
        whole = (abs(value) / unit + Fraction(1, 2)).__floor__()
        return whole * unit * (-1 if value < 0 else 1)

    return rounded


_OPERATIONS: dict[str, Callable[[Node], Term]] = {
    "sum": _folded(_sum, Fraction(0)),
    "product": _folded(_product),
    "difference": _pair(lambda a, b: _bounded(a - b)),
    "quotient": _pair(_quotient),
    "count": _count,
    "least": _folded(min),
    "greatest": _folded(max),
    "average": _folded(lambda values: _sum(values) / len(values)),
    "rounded": _rounded,
}
