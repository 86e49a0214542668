"""JSON Schema on values that a model wrote: the library `jsonschema`, without what a hostile value could do with it.

| what                                        | rule                                                                                      |
|---------------------------------------------|-------------------------------------------------------------------------------------------|
| dialect                                     | what `$schema` names, else draft 2020-12; `format` is a note and is not checked            |
| `$ref`                                      | within the schema, or to JSON Schema's own; any other is refused, none is ever fetched    |
| `type`: integer                             | 1 and 1.0, by JSON Schema's rule; true is no number                                       |
| `pattern`, `patternProperties`              | `regex` with a limit of time, on at most 20,000 characters                                |
| `multipleOf`                                | on the decimal numbers as they are written: 0.3 is a multiple of 0.1                      |
| `uniqueItems`                               | in time linear in the list                                                                |
| everything                                  | a budget of steps, so that a value cannot blow up a schema that refers to itself          |
| a schema that is none                       | SchemaError: the task's fault                                                             |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from prefkit.verify.budget import Budget, compile_pattern
from prefkit.verify.json_text import canonical, printable, shown

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_BUDGET: ContextVar[Budget] = ContextVar("budget")
_HOPS = 20
_NO_CLASS: Any = object()
_MIXED = {"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "unevaluatedProperties"}
"""Keywords by which properties may be allowed that do not stand beside them."""
_TYPES = {
    "string": "text",
    "object": "an object",
    "array": "a list",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
}


class SchemaError(Exception):
    """A schema that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Where a value breaks a schema. path: `items[2].price`, "" for the value itself. keyword: the schema's. message: in words."""

    path: str
    keyword: str
    message: str


class Schema:
    """A schema that is known to be fit for use. Raises SchemaError where it is not."""

    def __init__(self, schema: Any) -> None:
        from jsonschema.exceptions import SchemaError as LibraryError
        from jsonschema_specifications import REGISTRY

        self.contents: dict[str, Any] | bool = schema
        dialect = schema.get("$schema", DIALECT) if isinstance(schema, dict) else DIALECT
        try:
            kind = _guarded(dialect)
            kind.check_schema(schema)
        except LibraryError as error:
            raise SchemaError(f"{_path(error.absolute_path) or 'schema'}: {printable(error.message[:200])}") from None
        except RecursionError:
            raise SchemaError("nested too deeply") from None
        self._look_up = _checked_references(schema, dialect)
        self._validator: Validator = kind(schema, registry=REGISTRY)

    def fault(self, value: Any, budget: Budget) -> Fault | None:
        """The first place where the value breaks the schema, None where it keeps it. Raises BudgetSpent, and SchemaError for a `$ref`
        that leads nowhere after all."""
        from referencing.exceptions import Unresolvable

        token = _BUDGET.set(budget)
        try:
            error = next(self._validator.iter_errors(value), None)
        except Unresolvable as problem:
            raise SchemaError(f"$ref leads nowhere: {shown(str(problem.ref))}") from None
        except RecursionError:
            raise SchemaError("$ref goes round in circles") from None
        finally:
            _BUDGET.reset(token)
        return None if error is None else _fault(error)

    def invented(self, value: dict[str, Any], budget: Budget) -> str | None:
        """The first key that the schema does not name, where it names keys and says nothing about others."""
        schema = self.contents
        if not isinstance(schema, dict) or "properties" not in schema or "additionalProperties" in schema or _MIXED & schema.keys():
            return None
        patterns = [_compiled(pattern) for pattern in schema.get("patternProperties", {})]
        named = schema["properties"]
        return next((key for key in value if key not in named and not any(budget.matches(pattern, key) for pattern in patterns)), None)

    def filled(self, value: Any, budget: Budget) -> Any:
        """The value with the defaults of properties that it leaves out, at every depth; through `properties`, `items` and `$ref`."""
        return self._filled(self.contents, value, budget)

    def _filled(self, schema: Any, value: Any, budget: Budget) -> Any:
        budget.spend()
        for _ in range(_HOPS):
            if not (isinstance(schema, dict) and isinstance(schema.get("$ref"), str)):
                break
            schema = self._look_up(schema["$ref"]) | {key: item for key, item in schema.items() if key != "$ref"}
        if not isinstance(schema, dict):
            return value
        if isinstance(value, dict):
            named = {key: part for key, part in schema.get("properties", {}).items() if key in value or _has_default(part)}
            rest = {key: item for key, item in value.items() if key not in named}
            return rest | {
                key: self._filled(part, value[key], budget) if key in value else part["default"] for key, part in named.items()
            }  # fmt: skip
        if isinstance(value, list) and isinstance(schema.get("items"), dict):
            return [self._filled(schema["items"], item, budget) for item in value]
        return value


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _checked_references(schema: Any, dialect: str) -> Callable[[str], dict[str, Any]]:
    """Look at every reference and pattern of the schema now, not while an answer is judged. Returns what finds a reference's schema."""
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import specification_with

    root = specification_with(dialect).create_resource(schema)
    resolver = REGISTRY.with_resource(root.id() or "", root).resolver_with_root(root)
    left = [(root, resolver)]
    while left:
        resource, here = left.pop()
        contents = resource.contents
        if isinstance(contents, dict):
            for keyword in ("$ref", "$dynamicRef"):
                try:
                    if keyword in contents:
                        here.lookup(contents[keyword])
                except (Unresolvable, ValueError, TypeError, AttributeError):
                    where = contents[keyword]
                    far = isinstance(where, str) and not where.startswith("#")
                    raise SchemaError(f"{'remote $ref' if far else '$ref leads nowhere'}: {shown(where, 80)}") from None
            for pattern in [*contents.get("patternProperties", ()), *([contents["pattern"]] if "pattern" in contents else [])]:
                _compiled(pattern)
            if "patternProperties" in contents and "unevaluatedProperties" in contents:
                raise SchemaError("patternProperties beside unevaluatedProperties is not supported")
        left += [(part, here.in_subresource(part)) for part in resource.subresources()]

    def look_up(reference: str) -> dict[str, Any]:
        found = resolver.lookup(reference).contents
        return found if isinstance(found, dict) else {}

    return look_up


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except ValueError as error:
        raise SchemaError(str(error)) from None


@lru_cache(maxsize=16)
def _guarded(dialect: str) -> Any:
    """The library's class for a dialect with the guards of this file's table."""
    from jsonschema import validators

    try:
        known = validators.validator_for({"$schema": dialect}, default=_NO_CLASS)
    except (TypeError, ValueError):  # the name of a dialect is no text
        known = _NO_CLASS
    if known is _NO_CLASS:
        raise SchemaError(f"unknown $schema: {shown(dialect, 80)}")
    own = {"pattern": _pattern, "patternProperties": _pattern_properties, "additionalProperties": _additional_properties,
           "multipleOf": _multiple_of, "uniqueItems": _unique_items}  # fmt: skip
    keywords = {name: _counted(own.get(name, keyword)) for name, keyword in known.VALIDATORS.items()}
    return validators.extend(known, keywords)


def _counted(keyword: Callable) -> Callable:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        budget = _BUDGET.get(None)
        if budget is not None:  # there is none while a schema itself is checked
            budget.spend()
        return keyword(validator, value, instance, schema)

    return counted


def _error(message: str, *path: str) -> Any:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message, path=path)


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield _error("does not match the pattern")


def _pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, dict):
        for pattern, part in patterns.items():
            for key, value in instance.items():
                if _matches(pattern, key):
                    yield from validator.descend(value, part, path=key, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for key, value in instance.items():
        if key in named or any(_matches(pattern, key) for pattern in patterns):
            continue
        if isinstance(allowed, dict):
            yield from validator.descend(value, allowed, path=key)
        elif not allowed:
            yield _error("must not be there", key)


def _multiple_of(validator: Any, factor: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if (
        isinstance(instance, int | float)
        and not isinstance(instance, bool)
        and (Fraction(str(instance)) / Fraction(str(factor))).denominator != 1
    ):
        yield _error(f"is not a multiple of {factor}")


def _unique_items(validator: Any, unique: bool, instance: Any, schema: Any) -> Iterator[Any]:
    if unique and isinstance(instance, list) and len({canonical(item) for item in instance}) < len(instance):
        yield _error("has an item twice")


def _matches(pattern: str, text: str) -> bool:
    budget = _BUDGET.get(None)
    # A schema is checked against its dialect's own patterns, which are plain.
    return (budget or Budget(1, 1.0)).matches(_compiled(pattern), text)


def _fault(error: Any) -> Fault:
    """The library's error in short words; its own hold the whole value."""
    path, keyword, wanted, value = _path(error.absolute_path), str(error.validator), error.validator_value, error.instance
    match keyword:
        case "type":
            names = [wanted] if isinstance(wanted, str) else wanted
            message = f"must be {' or '.join(_TYPES.get(name, str(name)) for name in names)}, not {shown(value)}"
        case "required":
            missing = next((name for name in wanted if name not in value), "")
            path, message = f"{path}.{missing}".lstrip("."), "is missing"
        case "enum":
            message = f"must be one of {shown(wanted, 120)}, not {shown(value)}"
        case "const":
            message = f"must be {shown(wanted)}, not {shown(value)}"
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
            words = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than", "exclusiveMaximum": "less than"}
            message = f"must be {words[keyword]} {shown(wanted)}, not {shown(value)}"
        case "pattern" | "multipleOf" | "uniqueItems" | "additionalProperties":
            message = error.message
        case "None":  # the schema `false`
            message = "must not be there"
        case _:
            message = f"breaks {keyword}: {shown(wanted, 80)}"
    return Fault(printable(path), keyword, printable(message))


def _path(parts: Any) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:60]}" for part in parts)
    return text.lstrip(".")
