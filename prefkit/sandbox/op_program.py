"""Programs: text on standard input, text on standard output, an exit code. Inside the sandbox; standard library only.

    {"op": "program", "language": "python" | "javascript" | "bash" | "c", "code": text, "stdin": text, "args": [text…], …}

The result's `stdout`, `stderr`, `exit` and `signal` are the program's own; its status is ok where it ended with 0. Python runs in the
forked child, where the interpreter and its imports are warm; the others take the child's place. C is compiled in a run of its own, whose
limits are its own, and what came out is kept by the hash of source and compiler.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import sys
import threading
import traceback
import types
from typing import Any

from prefkit.sandbox.compiled import PRODUCT
from prefkit.sandbox.zygote_child import RESULT, Bad, Plan, failure_of, write_file

LANGUAGES = ("python", "javascript", "bash", "c")
_NODE_SPACE = 8 << 30
"""Address space that node reserves and hardly uses."""
_NODE_THREADS = 32
_COMPILE = {"timeout": 10.0, "memory": 512 << 20, "output": 1 << 20, "processes": 8, "disk": 64 << 20}
_FLAGS = ["-O1", "-std=gnu11", "-w", "-pipe", "-x", "c"]
"""-O1 compiles in half the time of -O2."""
_LIBRARIES = ["-lm"]


def run(message: dict[str, Any]) -> dict[str, Any]:
    """Programs are planned, not called: see `plan`."""
    raise Bad("a program has no value")


def plan(message: dict[str, Any], tools: dict[str, str], compiled: dict[str, int]) -> Plan:
    """What runs the program of a message. tools: paths of gcc, node and bash. compiled: descriptors of compiled programs, by key."""
    language, code, stdin, arguments = message.get("language"), message.get("code"), message.get("stdin", ""), message.get("args", [])
    if language not in LANGUAGES or not isinstance(code, str) or not isinstance(stdin, str):
        raise Bad(f"a program has a language of {', '.join(LANGUAGES)}, its code and its stdin as text")
    if not isinstance(arguments, list) or any(not isinstance(argument, str) or "\0" in argument for argument in arguments):
        raise Bad("args is no list of text")
    if language == "python":
        return Plan(stdin=stdin, call=lambda: _run_python(code, arguments))
    tool = tools.get({"javascript": "node", "bash": "bash", "c": "gcc"}[language])
    if tool is None:
        raise Bad(f"{language} is not installed")
    if language == "c":
        return _plan_c(tool, compiled, code, stdin, arguments)
    name = {"javascript": "program.js", "bash": "program.sh"}[language]
    write_file(name, code)
    if language == "bash":
        return Plan([tool, "--norc", "--noprofile", name, *arguments], stdin)
    heap = max(64, int((message.get("limits") or {}).get("memory", 512 << 20)) >> 20)
    options = [f"--max-old-space-size={heap}", "--v8-pool-size=1", "--single-threaded-gc"]
    return Plan([tool, *options, name, *arguments], stdin, address_space=_NODE_SPACE, threads=_NODE_THREADS)


def _plan_c(gcc: str, compiled: dict[str, int], code: str, stdin: str, arguments: list[str]) -> Plan:
    options = [*_FLAGS, "-o", PRODUCT]
    source = code.encode("utf-8", "surrogatepass")
    key = hashlib.sha256("\0".join([gcc, *options, *_LIBRARIES, ""]).encode() + source).hexdigest()
    if key in compiled:
        return Plan(["program", *arguments], stdin, program=compiled[key])
    write_file("program.c", code)
    return Plan([gcc, *options, "program.c", *_LIBRARIES], compile=key, limits=_COMPILE)


def _run_python(code: str, arguments: list[str]) -> None:
    """Run a script as the main module, as `python script.py` would: exit codes, tracebacks, exit handlers. Ends the process."""
    refused, note = failure_of, _note
    main = types.ModuleType("__main__")
    main.__dict__["__file__"] = "program.py"
    sys.modules["__main__"] = main
    sys.argv = ["program.py", *arguments]
    status = 0
    try:
        exec(compile(code, "program.py", "exec", dont_inherit=True), main.__dict__)
    except SystemExit as error:
        status = _exit_code(error)
    except BaseException as error:
        status = 1
        told = refused(error)
        note(*told)
        traceback.print_exception(type(error), error, error.__traceback__ and error.__traceback__.tb_next)
        if told[0] == "limit":
            os._exit(status)  # without waiting for threads that may never end
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # waits for the program's threads, as the interpreter's end does
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:
        status = status or 1
        note(*refused(error))
    os._exit(status)


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _note(status: str, reason: str) -> None:
    text = reason.encode("ascii", "replace").decode().replace('"', "'").replace("\\", "/")
    with contextlib.suppress(OSError):  # the program may have closed it
        os.write(RESULT, f'!{{"status":"{status}","reason":"{text}"}}\n'.encode())
