"""Compare two pieces of mathematics, given as LaTeX without its surroundings, inside the sandbox. Built on math-verify and latex2sympy.

{"gold": text, "answer": text or null} -> {"gold": "ok" | why not, "answer": "ok" | why not | null, "equal": bool}, where why not is
"not parsed", "no value" (nan, division by zero) or "too large" (a power or factorial too large to work out).

Both must parse as a whole: no last equation, no first number of a text that does not parse. On top of math-verify's comparison:

| math-verify alone                                                 | here                                                             |
|-------------------------------------------------------------------|------------------------------------------------------------------|
| 1/2^99 = 1/2^98, 0.0000001 = 0.0000002: absolute rounding         | numbers by relative difference, 30 digits                        |
| two equations without real solutions are equal                    | equations agree when their sides differ by a constant factor     |
| gold 5, answer 2x+1=5: the right side is taken                    | only of `x = 5`, or where left and right are the same number     |
| an inequality restated from the question agrees with its solution | an answer's inequality must be solved: a variable and a number   |
| {1, 2} agrees with the point (1, 2)                               | brackets of another kind are another thing; none at all fits all |
| expressions with tiny coefficients agree                          | they must agree at sample points too                             |
| a giant power hangs, also while it is printed                     | seen in the tree before it is worked out                         |
| alarm-based time limits fail in threads and hide errors           | none: the sandbox ends the process                               |
"""

from __future__ import annotations

import logging
from typing import Any

try:
    from latex2sympy2_extended import NormalizationConfig, latex2sympy, normalize_latex
    from latex2sympy2_extended.logic import And
    from latex2sympy2_extended.sets import FiniteSet
    from math_verify.grader import should_treat_as_complex, verify
    from sympy import Basic, Eq, Expr, Float, Integer, Interval, MatrixBase, N, Rational, Symbol, Tuple, factorial, nan, oo, zoo
    from sympy import FiniteSet as SympyFiniteSet
    from sympy.core.function import AppliedUndef
    from sympy.core.relational import Relational
except ImportError as error:
    raise ModuleNotFoundError("math-verify is not installed: pip install 'prefkit[math]'") from error

logging.disable(logging.CRITICAL)

_CONFIG = NormalizationConfig(basic_latex=True, units=True, malformed_operators=True, nits=True, boxed="none", equations=False)
_DIGITS = 30
_EXACT, _DECIMAL = 1e-12, 2e-6
"""Relative differences allowed between exact numbers, and where one of the two was written as a decimal."""
_MAX_DIGITS, _MAX_FACTORIAL = 20_000, 3_000
_POINTS = (Rational(7, 5), Rational(13, 11), Rational(29, 17))
_FAULTS = (
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    NotImplementedError,
    RecursionError,
    KeyError,
    IndexError,
    AssertionError,
)


def run(message: dict[str, Any]) -> dict[str, Any]:
    """See the top of this file. Raises nothing that the two texts bring about, but may take any time and memory."""
    gold, wrong = _read(message["gold"])
    if wrong not in ("", "too large") or message["answer"] is None:
        return {"gold": wrong or "ok", "answer": None, "equal": False}
    answer, problem = _read(message["answer"])
    if problem not in ("", "too large"):
        return {"gold": "ok", "answer": problem, "equal": False}
    try:
        large = wrong or problem  # then only the very same expression is equal
        equal = bool(gold == answer) if large else _brackets_fit(message["gold"], message["answer"]) and _equal(gold, answer)
    except Exception:  # sympy has many of its own
        equal = False
    return {"gold": "ok", "answer": "ok" if equal else problem or "ok", "equal": equal}


def _read(text: str) -> tuple[Any, str]:
    """(expression, "") or (expression or None, problem)."""
    try:
        latex = normalize_latex(text, _CONFIG)
        found = latex2sympy(latex, is_real=not should_treat_as_complex(text), convert_degrees=False, normalization_config=None)
    except Exception:  # the parser raises plain Exception
        return None, "not parsed"
    if not isinstance(found, Basic | MatrixBase):
        return None, "not parsed"
    parts = [found, *(found.args if isinstance(found, Basic) else found.flat())]
    if any(part in (nan, zoo) for part in parts):
        return found, "no value"
    return found, "too large" if _is_giant(found) else ""


def _is_giant(expression: Any) -> bool:
    """Whether some power or factorial in it has too many digits to be worked out. Looks at the tree; works out nothing large."""
    try:
        return any(_digits(node) > _MAX_DIGITS for node in (expression.flat() if isinstance(expression, MatrixBase) else [expression]))
    except _FAULTS:
        return True


def _digits(node: Any) -> float:
    """An upper bound of the decimal digits of any number on the way to the node's value; 0 for what has variables in it."""
    inner = max([_digits(part) for part in node.args], default=0.0)
    if node.is_Pow:
        base, exponent = node.args[0], node.args[1]
        if exponent.free_symbols or inner > _MAX_DIGITS:
            return inner
        if _digits(exponent) > 9:
            return float("inf")
        size = abs(float(N(exponent, 15)))
        return max(inner, size * max(1.0, _digits(base)))
    if isinstance(node, factorial):
        (of,) = node.args
        if of.free_symbols or inner > _MAX_DIGITS:
            return inner
        return float("inf") if _digits(of) > 9 or abs(float(N(of, 15))) > _MAX_FACTORIAL else max(inner, 10_000.0)
    if isinstance(node, Integer):
        return node.p.bit_length() * 0.30103
    return inner


def _brackets_fit(gold: str, answer: str) -> bool:
    """Whether both are sets in braces, or neither is; what stands without brackets fits everything."""
    kinds = {kind for kind in (_bracket(gold), _bracket(answer)) if kind}
    return len(kinds) < 2


def _bracket(text: str) -> str:
    text = text.strip().replace("\\left", "").replace("\\right", "")
    if text.startswith("\\{") and text.endswith("\\}"):
        return "braces"
    return "brackets" if text[:1] in ("(", "[") and text[-1:] in (")", "]") else ""


def _equal(gold: Any, answer: Any) -> bool:
    if isinstance(answer, Relational | And) and not isinstance(gold, Relational | And):
        return _equal_to_relation(gold, answer)
    if isinstance(gold, Eq) and isinstance(answer, Eq):
        return _same_equation(gold, answer)
    if isinstance(gold, Eq) and not isinstance(answer, Relational | And):
        return _is_name(gold.lhs) and _equal(gold.rhs, answer)
    if isinstance(gold, Relational | And) and isinstance(answer, Relational | And):
        return _is_solved(answer) >= _is_solved(gold) and _verify(gold, answer)
    if isinstance(gold, MatrixBase) and isinstance(answer, MatrixBase):
        return gold.shape == answer.shape and all(map(_equal, gold.flat(), answer.flat()))
    if isinstance(gold, SympyFiniteSet) and isinstance(answer, SympyFiniteSet):
        return _same_members(list(_members(gold)), list(_members(answer)))
    parts, others = _as_tuple(gold, answer), _as_tuple(answer, gold)
    if parts is not None and others is not None:
        return len(parts) == len(others) and all(map(_equal, parts, others))
    if isinstance(gold, Interval) and isinstance(answer, Interval):
        ends = gold.left_open == answer.left_open and gold.right_open == answer.right_open
        return ends and _equal(gold.start, answer.start) and _equal(gold.end, answer.end)
    if _is_number(gold) and _is_number(answer):
        return _same_number(gold, answer) or _same_percent(gold, answer)
    if isinstance(gold, Expr) and isinstance(answer, Expr):
        return _verify(gold, answer) and _agree_at_points(gold, answer)
    return _verify(gold, answer)


def _verify(gold: Any, answer: Any) -> bool:
    return bool(
        verify(gold, answer, float_rounding=6, numeric_precision=15, strict=True, allow_set_relation_comp=True, timeout_seconds=None)
    )


def _equal_to_relation(gold: Any, answer: Any) -> bool:
    """A gold that is no relation, an answer that is one: `x = 5`, `2 + 3 = 5`, or `0 < x < 5` for an interval."""
    if isinstance(answer, Eq):
        named = _is_name(answer.lhs) or (_is_number(answer.lhs) and _is_number(answer.rhs) and _same_number(answer.lhs, answer.rhs))
        return named and _equal(gold, answer.rhs)
    parts = _members(answer) if isinstance(answer, And) else ()
    if parts and all(isinstance(part, Eq) for part in parts):  # a = b = 5
        names = all(_is_name(side) or _is_number(side) for part in parts for side in (part.lhs, part.rhs))
        return names and _equal(gold, parts[-1].rhs)
    return _is_solved(answer) and _verify(gold, answer)


def _is_name(side: Any) -> bool:
    return isinstance(side, Symbol | AppliedUndef)


def _is_solved(relation: Any) -> bool:
    """Whether each inequality has a bare variable on one side and a number on the other."""
    parts = _members(relation) if isinstance(relation, And) else (relation,)
    return all(
        isinstance(part, Relational) and any(_is_name(a) and _is_number(b) for a, b in ((part.lhs, part.rhs), (part.rhs, part.lhs)))
        for part in parts
    )


def _same_equation(gold: Eq, answer: Eq) -> bool:
    sides: list[Any] = [gold.lhs, gold.rhs, answer.lhs, answer.rhs]
    if not all(isinstance(side, Expr) for side in sides):
        return sides[0] == sides[2] and _equal(sides[1], sides[3])
    ratio = ((sides[0] - sides[1]) / (sides[2] - sides[3])).doit().simplify()
    return bool(ratio.is_number and ratio.is_finite and not ratio.is_zero)


def _members(of: Any) -> Any:
    return getattr(of, "_unsorted_args", of.args)


def _same_members(gold: list[Any], answer: list[Any]) -> bool:
    """Whether each member of the one has a partner in the other."""
    if len(gold) != len(answer):
        return False
    for member in gold:
        partner = next((i for i, other in enumerate(answer) if _equal(member, other)), None)
        if partner is None:
            return False
        del answer[partner]
    return True


def _as_tuple(one: Any, other: Any) -> list[Any] | None:
    """The parts of a point: (1, 2) is read as an open interval, and 1, 2 without brackets as a set, until the other side is a point."""
    if isinstance(one, Tuple):
        return list(one.args)
    if isinstance(one, Interval) and one.is_open and isinstance(other, Tuple | FiniteSet):
        return [one.start, one.end]
    if isinstance(one, FiniteSet) and isinstance(other, Tuple | Interval) and (isinstance(other, Tuple) or other.is_open):
        return list(_members(one))
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, Expr) and not value.free_symbols and not value.atoms(AppliedUndef)


def _same_number(gold: Any, answer: Any) -> bool:
    if gold in (oo, -oo) or answer in (oo, -oo):
        return bool(gold == answer)
    a, b = gold.doit(), answer.doit()
    if isinstance(a, Rational) and isinstance(b, Rational):
        return bool(a == b)
    decimal = bool(gold.atoms(Float) or answer.atoms(Float))
    x, y = complex_of(a), complex_of(b)
    if x is None or y is None:
        return False
    largest = max(abs(x), abs(y))
    if not x or not y:
        return bool(largest == 0 or (a - b).equals(0))
    return bool(abs(x - y) <= largest * (_DECIMAL if decimal else _EXACT))


def complex_of(value: Any) -> Any:
    """The value to 30 digits, as mpmath's number; None where it has none."""
    found = N(value, _DIGITS)
    real, imaginary = found.as_real_imag()
    if not (isinstance(real, Float | Integer | Rational) and isinstance(imaginary, Float | Integer | Rational)):
        return None
    return real + 0 if not imaginary else found


def _same_percent(gold: Any, answer: Any) -> bool:
    """28% for 28 and 28 for 28%, where the sign alone differs: what a question asks for in percent is answered either way."""
    hundredth = Rational(1, 100)
    for one, other in ((gold, answer), (answer, gold)):
        if one.is_Mul and len(one.args) == 2 and str(one.args[1]) == str(hundredth) and not isinstance(one.args[1], Rational):
            return _same_number(one.args[0], other)
    return False


def _agree_at_points(gold: Any, answer: Any) -> bool:
    """Whether two expressions have nearly the same value wherever both have one, at a few points."""
    names = sorted(gold.free_symbols | answer.free_symbols, key=str)
    for shift in range(len(_POINTS)):
        point = {name: _POINTS[(shift + i) % len(_POINTS)] + i for i, name in enumerate(names)}
        try:
            x, y = complex_of(gold.subs(point).doit()), complex_of(answer.subs(point).doit())
        except Exception:
            continue
        if x is None or y is None:
            continue
        if abs(x - y) > max(abs(x), abs(y)) * _DECIMAL and max(abs(x), abs(y)) > 0:
            return False
    return True


# The parser builds its tables while it is used. What is there before a fork, the forked child need not build again.
for _gold, _answer in (("\\frac{1}{2}", "0.5"), ("x^2-1", "(x-1)(x+1)"), ("(0,1)", "0<x<1"), ("\\{1,\\sqrt{2}\\}", "\\sqrt{2},1")):
    run({"gold": _gold, "answer": _answer})
