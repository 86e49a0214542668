"""Load an answer's Python code in the process that was forked for it, and say what it raised. Standard library only.

The code runs as module `solution` (or what the task calls it), so that `if __name__ == "__main__":` does not. The random numbers of
`random` and `numpy.random` begin from a fixed seed, so that judging the same answer again gives the same verdict; generators that an
answer makes for itself (`random.Random()`, `default_rng()`) begin as it makes them.
"""

from __future__ import annotations

import importlib
import itertools
import os
import random
import sys
import types
from importlib.machinery import PathFinder
from typing import Any

from prefkit.sandbox.values import MAX_ITEMS, type_name
from prefkit.sandbox.zygote_child import failure_of

_MAX_MESSAGE = 300
_MAX_CHAIN = 8


def prepare() -> None:
    """Make this process what answers find: the working folder first on the path, an empty main module, random numbers from a fixed seed."""
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.dont_write_bytecode = True
    sys.argv = [""]
    sys.path.insert(0, os.getcwd())
    random.seed(0)
    sys.meta_path.insert(0, _SeedNumpy())


class _SeedNumpy:
    """Seeds numpy's random numbers at the moment somebody imports them: numpy is not imported for that, nor seeded again over an answer."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "numpy.random":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_seed(module: Any) -> None:
                execute(module)
                module.seed(0)

            spec.loader.exec_module = execute_and_seed  # type: ignore[method-assign]
        return spec


def load(module: str | None, also: list[str], files: dict[str, str]) -> types.ModuleType:
    """The module that names are looked for in, after it and those of `also` were loaded. Raises whatever their code raises.

    Without a name: an empty module, for tests that import what they want.
    """
    found = types.ModuleType("solution") if module is None else _load(module, files.get(f"{module}.py"))
    for name in also:
        if name != module:
            _load(name, files.get(f"{name}.py"))
    return found


def _load(module: str, source: str | None) -> types.ModuleType:
    """From its text where it stands at the top of the folder, which needs no look at the disk."""
    if source is None:
        return importlib.import_module(module)
    found = types.ModuleType(module)
    path = f"{module}.py"
    found.__file__ = os.path.abspath(path)
    sys.modules[module] = found
    exec(compile(source, path, "exec", dont_inherit=True), found.__dict__)
    return found


def find(root: Any, path: str) -> Any:
    """What `path` names in a module: `f`, `Class.method` (on an instance made without arguments), `CONSTANT.method`."""
    value = root
    for name in path.split("."):
        parent, value = value, getattr(value, name)
        if isinstance(parent, type) and isinstance(vars(parent).get(name), types.FunctionType):
            value = getattr(parent(), name)
    return value


def finished(value: Any) -> Any:
    """What a call came to: a coroutine is run, a generator is read, up to the cap. Raises what their code raises."""
    if type(value) is types.CoroutineType:
        import asyncio  # brings OpenSSL along, whose memory each child would take over

        value = asyncio.run(value)
    if type(value) is types.GeneratorType:
        value = iter(list(itertools.islice(value, MAX_ITEMS + 1)))
    return value


def describe(error: BaseException, folder: str) -> dict[str, Any]:
    """What was raised, as plain data: type, module, the names of its bases as far as they form a line, message, line in the answer,
    and the sandbox's word for it: limit or policy, where the system refused something, else crash."""
    kind = type(error)
    return {
        "type": type_name(kind),
        "bases": _bases(kind),
        "message": _message(error),
        "line": _line(error, folder),
        "outcome": list(failure_of(error)),
    }


def _bases(kind: type) -> list[str]:
    """Names from the class itself upwards, while each has one base: a class made of several exceptions stands for none of them."""
    names = []
    while kind not in (Exception, BaseException, object) and len(names) < _MAX_CHAIN:
        module = type.__dict__["__module__"].__get__(kind)
        names.append(f"{'' if module == 'builtins' else 'own '}{type_name(kind)}")
        bases = type.__dict__["__bases__"].__get__(kind)
        if len(bases) != 1:
            break
        (kind,) = bases
    return names


def _message(error: BaseException) -> str:
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except BaseException:
        return ""
    return text[:_MAX_MESSAGE] if type(text) is str else ""


def _line(error: BaseException, folder: str) -> int | None:
    """The innermost line in the answer's own files."""
    if isinstance(error, SyntaxError):
        return error.lineno if type(error.lineno) is int else None
    found = None
    trace = BaseException.__traceback__.__get__(error)  # type: ignore[attr-defined]
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(folder) or (not os.path.isabs(name) and not name.startswith("<")):
            found = trace.tb_lineno
        trace = trace.tb_next
    return found
