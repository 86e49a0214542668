"""The Python verifier: by returned values (`entry` and `cases`), or by tests that run beside the answer (`tests`).

| what happens                                                        | status        | reason                                             |
|---------------------------------------------------------------------|---------------|----------------------------------------------------|
| no cases, no tests, a test that does not parse (python_tests.py)    | UNVERIFIABLE  | no cases / no tests / a test does not parse …      |
| no Python in the answer (see code_text.py)                          | WRONG         | no code in the answer                              |
| a file of the answer's that hides a standard module or a test       | POLICY        | file named like a standard module / …              |
| it does not parse, raises while it is loaded, exits                 | CRASH         | SyntaxError while loading / SystemExit while …     |
| the process ends without a result: os._exit, a signal               | CRASH         | the sandbox's words                                |
| it has no such entry                                                | WRONG         | entry is not defined                               |
| a call raises where a value is expected                             | CRASH         | raises ValueError / raises an exception of its own |
| … because memory, disk, processes ran out, or the system forbids it | LIMIT, POLICY | limit: memory / policy: permission denied …        |
| a value differs (see values_compare.py)                             | WRONG         | wrong value                                        |
| an exception is expected, and none or another one comes             | WRONG         | raises nothing / raises the wrong exception        |
| a value with too much in it to be sent                              | LIMIT         | limit: items / limit: text / limit: depth          |
| an assertion of a test fails                                        | WRONG         | a test fails                                       |
| a test raises something else                                        | CRASH         | raises …                                           |
| a test is missing from the report                                   | WRONG         | a test did not run                                 |
| the report has the wrong token or shape; tamper.py saw it reach     | TAMPER        | forged result / reaches for the tests              |
| too much time, memory, output, processes; what is forbidden         | TIMEOUT …     | the sandbox's words                                |
| every value agrees; every test passes                               | PASS          | same values / all tests pass                       |

**Trust.** With `cases` the answer's process is sent code and arguments alone; values come back as data and are compared here, so that
nothing the answer does to its own process can help it: `__eq__` that always agrees, patched modules, printed verdicts, frames. With
`tests` the tests run in the answer's own process, and the verdict says `trust="in_process"`: walks through frames, the collector or
trace functions, changed builtins and patched test libraries are seen (TAMPER), but an object that lies to `==`, and a forgery that nobody
thought of, are not.
"""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from prefkit.sandbox.job import CodeJob, CodeResult
from prefkit.sandbox.tamper import EXIT
from prefkit.sandbox.zygote_child import OS_ERRORS
from prefkit.verify.code_text import extract_files, extract_python
from prefkit.verify.line_fields import must, timeout_of
from prefkit.verify.python_cases import Case, is_builtin, read_cases, stands_for
from prefkit.verify.python_files import MAX_FILES, bad_path, hides_module, read_files
from prefkit.verify.python_tests import TaskTest, is_test_file, read_tests
from prefkit.verify.value_text import show
from prefkit.verify.values_compare import DEFAULT, Tolerance, same
from prefkit.verify.values_compare import VERSION as VALUES
from prefkit.verify.verdict import Judgement, Status, status_of
from prefkit.verify.verifier import Source, Unverifiable, VerifierBase

VERSION = "python/1"
NO_CODE = "no code in the answer"

_WORD = re.compile(r"[A-Za-z_]\w*")
REFUSALS = {reason for _, reason in OS_ERRORS.values()} | {"limit: threads", "policy: raise a limit"}


@dataclass(frozen=True, slots=True)
class PythonCheck:
    """One answer to judge, by `cases` or by `tests`.

    answer: free model text. entry: what is called: `f`, `Class.method`, `pkg.module:f`. files: (path, text) of the project around it.
    target: the file that the answer stands for where it names none. setup: code in front of the answer. timeout_s: processor seconds.
    """

    kind: ClassVar[str] = "python"
    id: str
    answer: str
    entry: str | None = None
    cases: tuple[Case, ...] = ()
    tests: tuple[TaskTest, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    target: str = "solution.py"
    setup: str = ""
    tolerance: Tolerance = DEFAULT
    timeout_s: float = 2.0


class PythonVerifier(VerifierBase):
    """Judges PythonChecks."""

    kind: ClassVar[str] = "python"
    worker = "zygote"
    fields: ClassVar[tuple[str, ...]] = ("entry", "cases", "tests", "files", "target", "setup", "tolerance")

    def __init__(self) -> None:
        self.versions = {"judge": VERSION, "values": VALUES, "python": ".".join(map(str, sys.version_info[:3]))}

    def read(self, line: dict[str, Any], id: str, source: Source) -> PythonCheck:
        """A line: {"answer": text, "entry": name with "cases": [[[args…], expected]…] | "tests": text, [texts] or {path: text},
        "files": {path: text}, "target": path, "setup": code, "tolerance": number or {"relative", "absolute"}, "timeout": seconds}."""
        entry, setup, target = line.get("entry"), line.get("setup", ""), line.get("target", "solution.py")
        if entry is not None and not (isinstance(entry, str) and all(map(str.isidentifier, entry.replace(":", ".").split(".")))):
            raise must(line, "entry", "the name of a function (f, Class.method, package.module:f)")
        if not isinstance(setup, str):
            raise must(line, "setup", "text")
        if not isinstance(target, str) or bad_path(target):
            raise must(line, "target", "the relative path of a Python file")
        if ("cases" in line) == ("tests" in line):
            found = "both" if "cases" in line else "neither"
            raise ValueError(f'expected either "cases" (with "entry") or "tests", found {found}')
        files = read_files(line.get("files", {}))
        common: dict[str, Any] = {
            "files": tuple(sorted(files.items())),
            "target": target,
            "setup": setup,
            "timeout_s": timeout_of(line, source),
        }
        if "tests" in line:
            return PythonCheck(id, line["answer"], entry, tests=read_tests(line["tests"], files, entry), **common)
        if entry is None:
            raise ValueError('"cases" need an "entry", the name of the function that is called')
        cases = read_cases(line["cases"])
        if not cases:
            raise Unverifiable("no cases")
        return PythonCheck(id, line["answer"], entry, cases, tolerance=Tolerance.read(line.get("tolerance")), **common)

    def key(self, check: PythonCheck) -> Sequence[Any]:
        tests = [[test.path, test.code] for test in check.tests]
        cases = [case.key() for case in check.cases]
        tolerance = [check.tolerance.relative, check.tolerance.absolute, check.tolerance.given]
        return [_sources(check), check.files, check.target, check.setup, check.entry, cases, tests, tolerance, check.timeout_s]

    def trust(self, check: PythonCheck) -> str:
        return "in_process" if check.tests else "executed"

    def judge(self, check: PythonCheck) -> Generator[CodeJob, Any, Judgement]:
        """One job: all cases, or all tests."""
        sources = _sources(check)
        refused = _refused(sources)
        if refused is not None:
            return refused
        files = dict(check.files) | {path: text for path, text in sources.items() if not is_test_file(path)}
        if check.setup:
            files[check.target] = f"{check.setup}\n{files.get(check.target, '')}"
        module, _, entry = (check.entry or "").rpartition(":")
        if not module and check.target in files:
            module = _module_of(check.target)
        also = [_module_of(path) for path in sources if path.endswith(".py") and not is_test_file(path)]
        message = {"module": module or None, "also": also, "entry": entry or None, "files": files}
        if not check.tests:
            ran: CodeResult = (
                yield CodeJob("calls", message | {"cases": [case.call() for case in check.cases]}, cpu_s=check.timeout_s)
            ).last
            return _failed(ran, in_process=False) or _judge_calls(check, ran.value)
        token = secrets.token_hex(16)
        tests = [{"path": test.path, "code": test.code, "names": list(test.names)} for test in check.tests]
        ran = (yield CodeJob("tests", message | {"tests": tests, "token": token}, cpu_s=check.timeout_s)).last
        return _failed(ran, in_process=True) or _judge_tests(check, ran.value, token)


def _sources(check: PythonCheck) -> dict[str, str]:
    """Path -> text of the answer's files; empty where there is no code in it."""
    if check.files:
        named = {path: text for path, text in extract_files(check.answer).items() if path.endswith(".py") or path in dict(check.files)}
        if named:
            return named
    wanted = (check.entry or "").rpartition(":")[2].partition(".")[0]
    code = extract_python(check.answer, frozenset({wanted} if wanted else _names_in(check.tests)), check.setup)
    return {} if code is None else {check.target: code}


def _module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _names_in(tests: tuple[TaskTest, ...]) -> set[str]:
    """Words of the tests, among which are the names that they want of the answer."""
    return {word for test in tests for word in _WORD.findall(test.code)}


def _refused(sources: dict[str, str]) -> Judgement | None:
    """The judgement of an answer whose files are not worth running."""
    if not sources:
        return Judgement(Status.WRONG, NO_CODE, "There is no Python code in the answer.")
    if len(sources) > MAX_FILES:
        return Judgement(Status.LIMIT, f"limit: files (more than {MAX_FILES})", "The answer has too many files.")
    for path in sources:
        if is_test_file(path):
            continue  # left out: the task's own tests are run
        if bad_path(path):
            return Judgement(Status.POLICY, "file with a path that is not allowed", "A file of the answer has a path that is not allowed.")
        if hides_module(path):
            return Judgement(Status.POLICY, "file named like a standard module", f"{path} would hide a standard module.")
    return None


def _failed(ran: CodeResult, in_process: bool) -> Judgement | None:
    """The judgement where the process left no result."""
    if ran.status == "ok":
        return None
    if in_process and ran.status == "crash" and ran.exit == EXIT:
        return Judgement(Status.TAMPER, "reaches for the tests", "The code reaches into the process that tests it.")
    status = status_of(ran.status)
    return Judgement(status, ran.reason, None if status is Status.INFRA else f"The code does not run to its end: {ran.reason}.")


def _judge_calls(check: PythonCheck, value: Any) -> Judgement:
    """Compare what came back, which the answer may have written itself, with what is expected."""
    early = _not_loaded(value)
    if early is not None:
        return early
    results = value.get("cases") if isinstance(value, dict) else None
    if not isinstance(results, list) or len(results) != len(check.cases):
        return Judgement(Status.TAMPER, "forged result")
    for case, result in zip(check.cases, results, strict=True):
        wrong = _judge_case(check, case, result)
        if wrong is not None:
            return wrong
    return Judgement(Status.PASS, "same values")


def _judge_case(check: PythonCheck, case: Case, result: Any) -> Judgement | None:
    """The judgement of the first case that is not right; None where it is."""
    if not isinstance(result, dict) or len(result) != 1 or not (("value" in result) or isinstance(result.get("raised"), dict)):
        return Judgement(Status.TAMPER, "forged result")
    call = _call_text(check, case)
    if "raised" in result:
        raised = result["raised"]
        if case.raises is not None and stands_for(raised, case.raises):
            return None
        text = f"{call} raises {_exception_text(raised)}"
        refused = _refused_by_system(raised, f"{text}.")
        if refused is not None:
            return refused
        if case.raises is not None:
            return Judgement(Status.WRONG, "raises the wrong exception", f"{text}, which is not the right exception.")
        return Judgement(Status.CRASH, f"raises {_exception_name(raised)}", f"{text}.")
    form = result["value"]
    if case.raises is None and same(case.expected, form, check.tolerance):
        return None
    cut = form.get("$cut") if isinstance(form, dict) else None
    if cut in ("items", "text", "depth"):
        return Judgement(Status.LIMIT, f"limit: {cut} of a value", f"{call} returns a value with too much in it.")
    return Judgement(Status.WRONG, "raises nothing" if case.raises else "wrong value", f"{call} returns {show(form)}, which is wrong.")


def _judge_tests(check: PythonCheck, value: Any, token: str) -> Judgement:
    if not isinstance(value, dict) or value.get("token") != token:
        return Judgement(Status.TAMPER, "forged result")
    early = _not_loaded(value)
    if early is not None:
        return early
    rows = value.get("tests")
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 4 for row in rows):
        return Judgement(Status.TAMPER, "forged result")
    for _, name, outcome, raised in rows:
        if outcome == "passed":
            continue
        raised = raised if isinstance(raised, dict) else {}
        where = f"The test {name}" if isinstance(name, str) and name else "A test"
        if outcome == "failed":
            return Judgement(Status.WRONG, "a test fails", f"{where} fails.")
        refused = _refused_by_system(raised, f"{where} raises {_exception_text(raised)}.")
        if refused is not None:
            return refused
        return Judgement(Status.CRASH, f"raises {_exception_name(raised)}", f"{where} raises {_exception_text(raised)}.")
    wanted = [[index, name] for index, test in enumerate(check.tests) for name in test.names]
    if [[index, name] for index, name, _, _ in rows] != wanted:
        return Judgement(Status.WRONG, "a test did not run", "Not every test was run.")
    return Judgement(Status.PASS, "all tests pass")


def _not_loaded(value: Any) -> Judgement | None:
    """The judgement where the module could not be loaded, or has no such entry."""
    if not isinstance(value, dict):
        return None
    failed, missing = value.get("failed"), value.get("missing")
    if isinstance(failed, dict):
        feedback = f"The code cannot be loaded: it raises {_exception_text(failed)}."
        refused = _refused_by_system(failed, feedback)
        return refused or Judgement(Status.CRASH, f"{_exception_name(failed)} while loading", feedback)
    if isinstance(missing, dict):
        return Judgement(Status.WRONG, "entry is not defined", "The code does not define the function that was asked for.")
    return None


def _refused_by_system(raised: dict[str, Any], feedback: str) -> Judgement | None:
    """The judgement where what was raised came of a limit or of something that is forbidden."""
    match raised.get("outcome"):
        case ["limit" | "policy" as status, str(reason)] if reason in REFUSALS:
            return Judgement(status_of(status), reason, feedback)
    return None


def _exception_name(raised: dict[str, Any]) -> str:
    """Uniform: one of Python's own names, or that it is none of them."""
    name = raised.get("type")
    return str(name) if is_builtin(name) else "an exception of its own"


def _exception_text(raised: dict[str, Any]) -> str:
    message, line = raised.get("message"), raised.get("line")
    text = _exception_name(raised)
    if isinstance(message, str) and message:
        text += f": {message[:200].encode('utf-8', 'backslashreplace').decode()}"
    return text + (f" (line {line})" if type(line) is int else "")


def _call_text(check: PythonCheck, case: Case) -> str:
    arguments = [show(form, 60) for form in case.args] + [f"{name}={show(form, 60)}" for name, form in case.kwargs.items()]
    text = ", ".join(arguments)
    return f"{(check.entry or '').rpartition(':')[2]}({text if len(text) <= 200 else text[:199] + '…'})"
