"""Python answers in the process that a zygote forked for them: `calls` gives returned values as data, `tests` runs tests beside the answer.

calls: {"module": name or null, "also": [names], "entry", "cases": [{"args": [forms], "kwargs": {name: form}}…], "files": {path: text}} ->
    {"failed": exception} where the module cannot be loaded, {"missing": exception} where it has no such entry, else
    {"cases": [{"value": form} | {"raised": exception}…]}, in order. Values are forms of values.py; what is expected is never sent here.

tests: the same without "cases", with {"tests": [{"path": text or null, "code": text, "names": [name…]}…], "token": text} ->
    {"token", "failed" | "missing": …} or {"token", "tests": [[index, name, "passed" | "failed" | "error", exception or null]…]}.
    See guarded_tests.py for what runs and tamper.py for what it is guarded against.

"module" is loaded first, then the modules of "also": what the answer changes in another module when it is loaded is there for every test.
An exception is {"type", "bases", "message", "line", "outcome"} (see candidate.py).
"""

from __future__ import annotations

import os
from typing import Any

from prefkit.sandbox import candidate, guarded_tests, tamper
from prefkit.sandbox.values import MAX_ITEMS, MAX_TEXT, decode, encode


def calls(message: dict[str, Any]) -> dict[str, Any]:
    """Run the entry on each case's arguments, which are made anew for each. Returns plain data; raises nothing of the answer's."""
    folder = os.getcwd()
    encoded, described, made = encode, candidate.describe, decode
    load, find, finished = candidate.load, candidate.find, candidate.finished
    share = max(1, len(message["cases"]) // 4)
    items, text = MAX_ITEMS // share, MAX_TEXT // share
    try:
        module = load(message["module"], message["also"], message["files"])
    except BaseException as error:
        return {"failed": described(error, folder)}
    try:
        entry = find(module, message["entry"])
    except BaseException as error:
        return {"missing": described(error, folder)}
    results: list[dict[str, Any]] = []
    for case in message["cases"]:
        arguments = [made(form) for form in case["args"]]
        named = {name: made(form) for name, form in case["kwargs"].items()}
        try:
            value = finished(entry(*arguments, **named))
        except BaseException as error:
            results.append({"raised": described(error, folder)})
            continue
        results.append({"value": encoded(value, items=items, text=text)})
    return {"cases": results}


def tests(message: dict[str, Any]) -> dict[str, Any]:
    """Run the answer and its tests in this one process. Ends the process with tamper.EXIT where it sees the answer reach for them."""
    folder, token = os.getcwd(), message["token"]
    described, load, find, run = candidate.describe, candidate.load, candidate.find, guarded_tests.run
    plan = guarded_tests.compiled(message["tests"])  # before anything of the answer runs
    guard = tamper.Guard(plan.modules)
    guard.watch()
    try:
        module = load(message["module"], message["also"], message["files"])
    except BaseException as error:
        return {"token": token, "failed": described(error, folder)}
    try:
        entry = find(module, message["entry"]) if message["entry"] else None
    except BaseException as error:
        return {"token": token, "missing": described(error, folder)}
    guard.check()
    results = run(plan, module, message["entry"], entry, lambda error: described(error, folder))
    guard.check()
    return {"token": token, "tests": results}
