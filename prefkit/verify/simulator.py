"""A simulator: a small world in trusted code that tool calls change, so that an answer is judged by what happened.

A simulator is a class with a state (JSON) and tools (methods):

    class Lamp(Simulator):
        @tool("Switch the lamp.", {"on": {"type": "boolean"}})
        def switch(self, on: bool) -> str:
            if self.state["broken"]:
                raise ToolError("the lamp is broken")
            self.state["on"] = on
            return "done"

    lamp = Lamp({"on": False, "broken": False})
    lamp.call("switch", {"on": True}).value      # "done"
    lamp.state                                   # {"on": True, "broken": False}

| what happens in a call                                | what comes of it                                                        |
|-------------------------------------------------------|-------------------------------------------------------------------------|
| there is no such tool, the arguments break its schema | an error; nothing has happened                                          |
| the tool raises ToolError                             | an error with its message; nothing has happened                         |
| the tool raises anything else                         | the error `the tool failed`; nothing has happened                       |
| it returns                                            | its value (JSON), and the state as the tool left it                     |

A failed call stops nothing: the next ones go on from the state before it. The code of a simulator is trusted and runs in this process: it
is named by whoever writes the task or the recipe, never by an answer, and gets from an answer nothing but JSON values that its schemas
let through. It should read no clock and no random numbers (put a `now` into the state), keep everything in `self.state`, and bound its own
work by the values that it is given.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, TypeVar

from prefkit.verify.budget import Budget
from prefkit.verify.json_schema import Schema
from prefkit.verify.json_text import printable, shown

_SIMULATORS: dict[str, str] = {"orders": "prefkit.verify.orders_simulator:OrdersSimulator"}
_MARK = "_prefkit_tool"
_STEPS, _SECONDS = 100_000, 2.0
_MAX_ERROR = 300

_Method = TypeVar("_Method", bound=Callable)


class ToolError(Exception):
    """What a tool answers in place of a result: the message is for the model."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of one call. error: "" where it went well."""

    value: Any = None
    error: str = ""


def tool(description: str, properties: dict[str, Any] | None = None) -> Callable[[_Method], _Method]:
    """Make a method a tool. properties: a JSON Schema for each of its parameters; those without a default are required."""

    def mark(method: _Method) -> _Method:
        parameters = list(inspect.signature(method).parameters.values())[1:]
        named = {parameter.name for parameter in parameters}
        if named != set(properties or {}):
            raise TypeError(f"{method.__name__}: parameters and properties differ: {', '.join(sorted(named ^ set(properties or {})))}")
        required = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
        schema = {"type": "object", "properties": dict(properties or {}), "required": required, "additionalProperties": False}
        setattr(method, _MARK, {"name": method.__name__, "description": description, "parameters": schema})
        return method

    return mark


class Simulator:
    """Base class. Subclass it, mark methods with `@tool`, and change `self.state` in them."""

    version: ClassVar[str] = "1"
    """Change it with whatever changes the simulator's verdicts and does not stand in its own file."""

    def __init__(self, state: dict[str, Any]) -> None:
        """Start from a copy of `state`. Raises ValueError where `check_state` does."""
        self.state: dict[str, Any] = copy.deepcopy(state)
        self.check_state()

    def check_state(self) -> None:
        """Raise ValueError where the start state is no state of this world. Does nothing by default."""

    @classmethod
    def tools(cls) -> list[dict[str, Any]]:
        """The tools as a model is told of them: name, description, parameters."""
        return [getattr(member, _MARK) for _, member in inspect.getmembers(cls, callable) if hasattr(member, _MARK)]

    def call(self, name: str, arguments: dict[str, Any], budget: Budget | None = None) -> CallResult:
        """Run one tool. Never raises for what an answer can bring about, but BudgetSpent where a schema takes too long."""
        schema = _schemas(type(self)).get(name)
        if schema is None:
            return CallResult(error=f"there is no tool {shown(name)}")
        fault = schema.fault(arguments, budget or Budget(_STEPS, _SECONDS))
        if fault is not None:
            return CallResult(error=f"{fault.path or 'arguments'} {fault.message}")
        before = self.state
        self.state = copy.deepcopy(before)
        try:
            value = getattr(self, name)(**_whole_numbers(schema, copy.deepcopy(arguments)))
            json.dumps([value, self.state], allow_nan=False)
        except ToolError as error:
            self.state = before
            return CallResult(error=printable(str(error)[:_MAX_ERROR]))
        except Exception as error:  # a fault of the tool that these values brought out; the world goes on without the call
            self.state = before
            return CallResult(error=f"the tool failed ({type(error).__name__})")
        return CallResult(copy.deepcopy(value))


def register(name: str, target: str | type[Simulator]) -> None:
    """Let tasks name a simulator. target: the class, or "module:Class". Raises ValueError for a name that is taken by another."""
    where = target if isinstance(target, str) else f"{target.__module__}:{target.__qualname__}"
    if not name.isidentifier() or _SIMULATORS.get(name, where) != where:
        raise ValueError(f"{name!r} cannot be the name of a simulator, or is the name of another")
    _SIMULATORS[name] = where
    if not isinstance(target, str):
        _REGISTERED[where] = target


_REGISTERED: dict[str, type[Simulator]] = {}


def simulator_class(name: str, folder: Path | None = None) -> type[Simulator]:
    """The simulator that a task names: a registered name, or "module:Class" of a module beside the task's file or of an installed one.

    Importing runs the module: call this with names from the task's author alone. Raises ValueError where there is no such simulator.
    """
    target = _SIMULATORS.get(name, name)
    if target in _REGISTERED:
        return _REGISTERED[target]
    module_name, colon, class_name = target.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module_name.split("."), class_name]):
        raise ValueError(f"unknown simulator {shown(name)}; there is: {', '.join(sorted(_SIMULATORS))}, or module:Class")
    module = _module(module_name, folder)
    found = getattr(module, class_name, None)
    if not (isinstance(found, type) and issubclass(found, Simulator)):
        raise ValueError(f"{shown(name)}: {module_name} has no Simulator {class_name}")
    return found


def content_of(kind: type[Simulator]) -> str:
    """What decides how a simulator behaves, as a hash: its file and its version."""
    source = inspect.getsourcefile(kind)
    text = Path(source).read_bytes() if source and Path(source).is_file() else b""
    return hashlib.sha256(b"\0".join([kind.__qualname__.encode(), kind.version.encode(), text])).hexdigest()


@lru_cache(maxsize=64)
def _schemas(kind: type[Simulator]) -> dict[str, Schema]:
    return {declared["name"]: Schema(declared["parameters"]) for declared in kind.tools()}


def _module(name: str, folder: Path | None) -> ModuleType:
    file = folder / f"{name.replace('.', '/')}.py" if folder is not None else None
    try:
        if file is None or not file.is_file():
            return importlib.import_module(name)
        # A name of its own: two task folders may each have a simulator.py.
        own = f"prefkit_simulator_{hashlib.sha256(str(file.resolve()).encode() + file.read_bytes()).hexdigest()[:16]}"
        if own not in sys.modules:
            spec = importlib.util.spec_from_file_location(own, file)
            assert spec is not None and spec.loader is not None, "it is a .py file"
            module = importlib.util.module_from_spec(spec)
            sys.modules[own] = module
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[own]
                raise
        return sys.modules[own]
    except Exception as error:
        raise ValueError(f"the simulator's module {name} cannot be imported: {type(error).__name__}: {error}") from error


def _whole_numbers(schema: Schema, arguments: dict[str, Any]) -> dict[str, Any]:
    """17.0 as 17 where an integer is asked: JSON Schema takes both, Python's dictionaries of texts do not."""
    parts = schema.contents["properties"] if isinstance(schema.contents, dict) else {}
    return {
        key: int(value) if isinstance(value, float) and parts.get(key, {}).get("type") == "integer" else value
        for key, value in arguments.items()
    }  # fmt: skip
