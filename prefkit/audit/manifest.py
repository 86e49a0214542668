"""The manifest, the recipe and the files of a run: hashes, sizes, what each stage was made from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefkit import pipeline, recipe
from prefkit.data.audit_read import Reader
from prefkit.data.findings import Findings, listed
from prefkit.data.receipts import adapter_hash
from prefkit.errors import PrefkitError, RunError
from prefkit.hashing import hash_bytes, hash_file, hash_value
from prefkit.recipe import Recipe
from prefkit.runfolder import RunFolder
from prefkit.tasks.base import Example

Row = dict[str, Any]
MOST_MANIFEST, MOST_RECIPE, MOST_METRICS = 64 << 20, 1 << 20, 256 << 20
LATER = frozenset({"report.html", "report.md"})
"""What `prefkit report` may write again: judged by what it says, not by its bytes."""
ROW_FOLDERS = ("rollouts", "verdicts", "pairs", "trajectories", "evaluation")
COUNTS = ("tokens", "verifier_calls")
_SHAPE = {"outputs": dict, "files": dict, "figures": dict, "versions": dict, "seconds": (int, float), "inputs": str}


def existing(path: str | Path) -> RunFolder:
    """The run at `path`. RunError where there is none, or where its manifest cannot be read."""
    run = RunFolder.existing(path)
    size = (run.path / "manifest.json").stat().st_size
    if size > MOST_MANIFEST:
        raise RunError(f"{run.path}/manifest.json has {size:,} bytes, more than any run's. It is no manifest of prefkit's.")
    try:
        version = run.manifest["version"]
    except RecursionError as error:
        raise RunError(f"{run.path}/manifest.json is nested too deeply to be a manifest.") from error
    assert version == 1
    return run


def stages(run: RunFolder, findings: Findings) -> dict[str, Row]:
    """The entries of stages that are done, with the shape that they must have; others are findings or said to be unfinished."""
    found: dict[str, Row] = {}
    unfinished = []
    for name, entry in run.manifest["stages"].items():
        if not isinstance(entry, dict):
            findings.add("files", "manifest.json", name, ("entry", "an object", type(entry).__name__))
        elif entry.get("status") != "done":
            unfinished.append(name)
        elif faults := [key for key, kind in _SHAPE.items() if not isinstance(entry.get(key), kind)]:
            findings.add("files", "manifest.json", name, ("entry", f"a value for {listed(faults)}", "none, or of another type"))
        elif odd := [key for key in COUNTS if not isinstance(entry["figures"].get(key) or 0, int | float)]:
            findings.add("files", "manifest.json", name, ("figures", f"a number for {listed(odd)}", "another type"))
        else:
            found[name] = entry
    if unfinished:
        findings.skip(f"stages that are not finished: {listed(unfinished)}", len(unfinished))
    return found


def check_files(reader: Reader, entries: Mapping[str, Row], whole: bool) -> None:
    """Every file that a stage wrote: there, of its size, with its bytes; with `whole` also its content's hash. And none beside them."""
    findings = reader.findings
    named = set()
    for stage, entry in entries.items():
        for rel, written in entry["files"].items():
            named.add(str(rel))
            if rel not in LATER:
                _check_file(reader, stage, str(rel), written, entry["outputs"].get(rel), whole)
        for rel in entry["outputs"].keys() - entry["files"].keys():
            findings.add("files", "manifest.json", f"{stage}, {rel}", ("files", "an entry", "none"))
    if not whole:
        findings.skip("content hashes of the files (--sample); their bytes were checked", 0)
    for folder in ROW_FOLDERS:
        for path in sorted(reader.run.path.glob(f"{folder}/**/*.parquet")):
            rel = path.relative_to(reader.run.path).as_posix()
            if rel not in named:
                findings.row("files", rel, "", [("manifest", "an entry of a finished stage", "none")])


def _check_file(reader: Reader, stage: str, rel: str, written: Any, output: Any, whole: bool) -> None:
    path = reader.path(rel)
    reader.findings.checked["files"] += 1
    if path is None:
        return
    size, digest = (written.get("size"), written.get("sha256")) if isinstance(written, dict) else (None, None)
    problems = []
    if digest != (found := hash_bytes(path)) or size != path.stat().st_size:
        problems.append((f"sha256 of {stage}", digest, found))
    elif whole and path.suffix in (".parquet", ".json"):
        try:
            content = hash_file(path)
        except Exception as error:  # a broken file of right bytes: whatever its reader raises, the rows are reported where they are read
            content = f"cannot be read: {str(error)[:120]}"
        if content != output:
            problems.append((f"content hash of {stage}", output, content))
    elif output != found and path.suffix not in (".parquet", ".json"):
        problems.append((f"content hash of {stage}", output, found))
    for problem in problems:
        reader.findings.add("files", rel, "", problem)


def read_recipe(reader: Reader) -> tuple[Recipe | None, bool]:
    """The run's recipe, and whether every setting of this version stands in it. None after a finding."""
    path = reader.path("recipe.yaml")
    if path is None:
        return None, False
    if path.stat().st_size > MOST_RECIPE:
        reader.findings.add("files", "recipe.yaml", "", ("file", "a recipe", f"{path.stat().st_size:,} bytes"))
        return None, False
    try:
        text = path.read_text(encoding="utf-8")
        chosen = recipe.load(path)
    except (PrefkitError, UnicodeDecodeError, RecursionError) as error:
        reader.findings.add("files", "recipe.yaml", "", ("file", "a recipe that can be read", str(error)))
        return None, False
    missing, other = _unlike(text, chosen)
    if missing:
        reader.findings.skip(f"what each stage was made from: recipe.yaml is of another version and has no {listed(missing)}", len(missing))
    if other:
        reader.findings.add("files", "recipe.yaml", other[0], ("setting", other[1], other[2]))
    return chosen, not missing


def _unlike(text: str, chosen: Recipe) -> tuple[list[str], tuple[str, Any, Any] | None]:
    """The settings that the file lacks, and the first line in which it is not as a run writes it (line, written, found)."""
    import yaml

    values = yaml.safe_load(text)
    missing = list(_missing(values, chosen.model_dump(mode="json")))
    if missing:
        return missing, None
    lines, wanted = text.splitlines(), chosen.to_yaml().splitlines()
    for number, (old, new) in enumerate(zip(lines, wanted, strict=False), 1):
        if old != new:
            return [], (f"line {number}", old, new)
    return [], None if len(lines) == len(wanted) else ("the end", f"{len(lines)} lines", f"{len(wanted)} lines")


def _missing(values: Any, wanted: Any, path: str = "") -> list[str]:
    if isinstance(wanted, dict) and isinstance(values, dict):
        return [name for key, value in wanted.items() for name in _missing(values.get(key, _missing), value, f"{path}.{key}".strip("."))]
    if isinstance(wanted, list) and isinstance(values, list) and len(wanted) == len(values):
        return [name for i, value in enumerate(wanted) for name in _missing(values[i], value, f"{path}.{i}")]
    return [path] if values is _missing else []


def check_data_places(chosen: Recipe, run: RunFolder) -> str | None:
    """Why the task's data cannot be trusted to be the user's own: a run writes whole paths, and no run holds its own dataset."""
    task = chosen.task
    folder = run.path.resolve()
    named = [*((("task.dataset", task.dataset),) if task.database is None and Path(task.dataset).is_dir() else ())]
    named += [("task.ingested", path) for path in task.ingested_folders]
    for name, path in named:
        if Path(path).resolve().is_relative_to(folder):
            return f"{name} {path} lies in the run folder itself"
    return None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def relative_places(run: RunFolder) -> list[str]:
    """The paths of the user's data in recipe.yaml that are no whole paths, or lead back up. A run writes whole ones."""
    import yaml

    values = yaml.safe_load(run.file("recipe.yaml").read_text(encoding="utf-8"))
    task = values.get("task") if isinstance(values, dict) else None
    if not isinstance(task, dict):
        return []
    given = [one for name in ("questions", "augmented", "database", "ingested") for one in _listed(task.get(name))]
    return [path for path in given if isinstance(path, str) and (not Path(path).is_absolute() or ".." in Path(path).parts)]


def gone_on_from(reader: Reader) -> Row:
    """The hashes of what the run goes on from, as its manifest names them; the copy of the adapter is compared with its hash."""
    manifest = reader.run.manifest
    start, given = manifest.get("from"), manifest.get("with")
    weights = start.get("sha256") if isinstance(start, dict) else None
    if weights is not None:
        found = adapter_hash(reader.run.file("start/adapter"))
        problems = [("sha256 of the earlier run's weights", weights, found)] if found != weights else []
        reader.findings.row("files", "start/adapter/adapter_model.safetensors", "", problems)
    folders = [one.get("sha256") for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    return {"adapter": weights, "ingested": folders}


def check_inputs(chosen: Recipe, before: Row, identity: str, entries: Mapping[str, Row], findings: Findings) -> None:
    """The hash of everything that decides each stage's result: task (its `identity`), settings, and the content of what it read, with what
    the run goes on from (see `gone_on_from`)."""
    problems = {}
    plan = pipeline.plan(chosen, before)
    for stage in plan:
        if stage.name in entries:
            found = pipeline.inputs_from(entries, stage, identity)
            if found != entries[stage.name]["inputs"]:
                problems[stage.name] = (entries[stage.name]["inputs"], found)
    checked = [stage.name for stage in plan if stage.name in entries]
    findings.checked["stages"] += len(checked)
    if len(problems) == len(checked) and len(checked) > 1:
        what = "inputs of every stage (settings in recipe.yaml, questions, golds, databases, schemas)"
        findings.add("stages", "manifest.json", listed(checked), (what, *problems[checked[0]]))
        return
    for name, (written, found) in problems.items():
        findings.add("stages", "manifest.json", name, ("inputs (settings, questions, databases, files it read)", written, found))


def check_complete(chosen: Recipe, before: Row, entries: Mapping[str, Row], findings: Findings) -> None:
    """A run with a report has every stage of its recipe. before: see `gone_on_from`."""
    planned = [stage.name for stage in pipeline.plan(chosen, before)]
    if "report" in entries:
        for name in planned:
            if name not in entries:
                findings.row("stages", "manifest.json", name, [("entry", "a finished stage", "none")])
    for name in entries:
        if name not in planned:
            findings.add("stages", "manifest.json", name, ("entry", "a stage of the recipe", "the recipe has no such stage"))


def read_metrics(reader: Reader, entries: Mapping[str, Row]) -> list[Row]:
    """The lines of metrics.jsonl, each stage's against the hash that its entry keeps."""
    if not reader.run.file("metrics.jsonl").exists():
        return []
    path = reader.path("metrics.jsonl")
    if path is None:
        return []
    if path.stat().st_size > MOST_METRICS:
        reader.findings.add("files", "metrics.jsonl", "", ("file", "the curves of a run", f"{path.stat().st_size:,} bytes"))
        return []
    lines = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            lines.append(row)
        else:
            reader.findings.add("files", "metrics.jsonl", f"line {number}", ("line", "a JSON object", line[:80].decode("utf-8", "replace")))
    unsealed = []
    for name, entry in entries.items():
        mine = [row for row in lines if row.get("stage") == name]
        sealed = entry.get("metrics")
        if isinstance(sealed, dict):
            found = {"lines": len(mine), "sha256": hash_value(mine)}
            reader.findings.row("files", "metrics.jsonl", name, [] if sealed == found else [("curve of the stage", sealed, found)])
        elif mine:
            unsealed.append(name)
    if unsealed:
        reader.findings.skip(f"the curves of {listed(unsealed)} against a hash (this run kept none); the report was compared with them", 0)
    return lines


def adapters(reader: Reader, entries: Mapping[str, Row]) -> dict[str | tuple[str, str], str | None]:
    """Which weights gave the answers of each stage and each policy, by their hash, as the stages follow on each other."""
    run = reader.run

    def weights(folder: object) -> str | None:
        return adapter_hash(run.file(str(folder)))

    chosen = {name: reader.json(f"{name}.json") for name in ("select-warm", "select-final") if name in entries}
    start = "start/adapter" if "start" in entries else None
    found: dict[str | tuple[str, str], str | None] = {"readiness": start and weights(start)}
    if start is not None:
        found["evaluation/select-warm.parquet", "start"] = weights(start)
    for name in entries:
        base, _, number = name.rpartition("-")
        if base in ("rollouts", "corrections") and number.isdigit():
            found[name] = weights(f"warm_start/round-{int(number) - 1}/adapter") if int(number) else found["readiness"]
        if base == "warm_start":
            found["evaluation/select-warm.parquet", f"round-{number}"] = weights(f"warm_start/round-{number}/adapter")
    for path in sorted(run.path.glob("calibrate/candidates/step-*")):
        found["evaluation/select-final.parquet", path.name] = weights(path.relative_to(run.path))
    places = {"base" if start is None else "earlier": start, "references": "warm_start/round-0/adapter"}
    for name, policy, key in (("select-warm", "own_pairs", "adapter"), ("select-final", "calibrated", "kept")):
        place = chosen[name].get(key) if isinstance(chosen.get(name), dict) else None
        if isinstance(place, str) and ".." not in Path(place).parts and not Path(place).is_absolute():
            places[policy] = place
    if "evaluate" in entries and len(places) == 4:
        found.update({("evaluation/answers.parquet", policy): place and weights(place) for policy, place in places.items()})
    if "own_pairs" in places:
        found["rollouts-calibrate"] = weights(places["own_pairs"])
    return found


def by_id(task: Any) -> dict[str, Example]:
    """Every question of the task."""
    return {example.id: example for example in task.every()}
