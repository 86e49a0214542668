"""The notebooks run from top to bottom as a newcomer runs them, and are kept without outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prefkit.runfolder import RunFolder

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb"))
SECONDS_A_CELL = 1800
LONGEST = 25


def cells(notebook: Path, kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def test_the_first_notebook_is_there() -> None:
    assert [notebook.name for notebook in NOTEBOOKS][:1] == ["00_first_run.ipynb"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)
def test_notebooks_are_kept_without_outputs(notebook: Path) -> None:
    kept = [cell["id"] for cell in cells(notebook, "code") if cell["outputs"] or cell["execution_count"] is not None]
    assert kept == [], "clear the outputs: jupyter nbconvert --clear-output --inplace " + str(notebook)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)
def test_cells_are_short_and_most_are_explained(notebook: Path) -> None:
    code = cells(notebook, "code")
    assert [cell["id"] for cell in code if len("".join(cell["source"]).splitlines()) >= LONGEST] == []
    assert len(cells(notebook, "markdown")) >= len(code) * 0.8


def test_the_first_run_runs_from_top_to_bottom(tmp_path: Path) -> None:
    """The whole loop on the smoke profile, in a folder of its own; a cell that raises fails the test with its traceback."""
    for needed in ("nbclient", "ipykernel", "matplotlib"):
        pytest.importorskip(needed, reason=f"{needed} is not installed: pip install 'prefkit[notebooks]'")
    import nbformat
    from nbclient import NotebookClient

    notebook: Any = nbformat.read(NOTEBOOKS[0], as_version=4)
    NotebookClient(notebook, timeout=SECONDS_A_CELL, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()

    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 5
    said = "".join(output.text for output in outputs if output.output_type == "stream")
    assert "Base model" in said and "Trained model" in said  # `prefkit ask` answered
    tables = "".join(output["data"].get("text/plain", "") for output in outputs if "data" in output)
    for status in ("PASS", "WRONG", "POLICY", "TIMEOUT"):
        assert status in tables
    run = RunFolder.existing(tmp_path / "runs" / "first-run")
    assert all(entry["status"] == "done" for entry in run.manifest["stages"].values())
    assert run.file("report.html").is_file()
