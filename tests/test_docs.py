"""The documents say what the code does: every key, stage, file and command in them is there, and every link leads somewhere.

`python tests/test_docs.py` writes the tables of docs/recipe.md again.
"""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from prefkit import pipeline, resources
from prefkit.recipe import Recipe, load
from prefkit.recipe_messages import expected
from prefkit.statistics import smallest_gain
from prefkit.verify.verdict import Status

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def block(text: str, begin: str, end: str) -> str:
    """What stands between two marks, each of which must be there once."""
    assert text.count(begin) == 1, f"{begin} stands {text.count(begin)} times"
    return text.split(begin)[1].split(end)[0].strip()


# docs/recipe.md


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every setting with its dotted name; an entry of a list of groups is called N."""
    for name, field in model.model_fields.items():
        kinds = (field.annotation, *typing.get_args(field.annotation))
        found = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if found:
            place = "N." if typing.get_origin(field.annotation) is list else ""
            yield from keys(found[0], f"{prefix}{name}.{place}")
        else:
            yield prefix + name, field


def written(value: object) -> str:
    if value is PydanticUndefined:
        return "*needed*"
    return value or "*empty*" if isinstance(value, str) else json.dumps(value)


def table(group: str) -> str:
    """The table of one group of settings, as docs/recipe.md has to show it."""
    rows = ["| key | default | may be | what it is |", "|---|---|---|---|"]
    for key, field in keys(Recipe):
        if (key.partition(".")[0] == group.partition(".")[0]) if group else "." not in key:
            rows.append(f"| `{key}` | {written(field.get_default(call_default_factory=True))} | {expected(field)} | {field.description} |")
    return "\n".join(rows)


GROUPS = re.findall(r"<!-- keys:(\S*) -->", read(DOCS / "recipe.md"))


@pytest.mark.parametrize("group", GROUPS)
def test_the_page_of_recipe_keys_shows_every_setting_as_it_is(group: str) -> None:
    assert block(read(DOCS / "recipe.md"), f"<!-- keys:{group} -->", "<!-- /keys -->") == table(group), "python tests/test_docs.py mends it"


def test_no_group_of_settings_is_left_out() -> None:
    wanted = {key.partition(".")[0] if "." in key else "" for key, _ in keys(Recipe)}
    assert {group.partition(".")[0] for group in GROUPS} == wanted


# docs/run-folder.md


def test_the_page_of_the_run_folder_names_every_stage_and_every_file() -> None:
    text = read(DOCS / "run-folder.md")
    for stage in pipeline.plan(load("sql-gen")):
        assert f"`{re.sub(r'-[0-9]+$', '-N', stage.name)}`" in text, stage.name
        for file in stage.writes:
            general = re.sub(r"(rollouts|verdicts)/[^/]+[.]parquet", r"\1/<stage>.parquet", file)
            general = re.sub(r"(round|corrections)-[0-9]+", r"\1-N", general)
            assert general in text, file


def test_the_page_of_verification_names_every_status() -> None:
    text = read(DOCS / "verification.md")
    assert [status for status in Status if f"| {status} | " not in text] == []


# docs/evidence.md


def test_the_page_of_evidence_shows_the_gains_that_can_be_shown() -> None:
    lines = block(read(DOCS / "evidence.md"), "<!-- gains:begin -->", "<!-- gains:end -->").splitlines()
    questions, gains = ([cell.strip() for cell in line.strip("| ").split("|")][1:] for line in (lines[0], lines[2]))
    assert len(questions) >= 5
    for n, gain in zip(questions, gains, strict=True):
        least = smallest_gain(int(n))
        assert least is not None
        assert float(gain) == pytest.approx(100 * least, abs=0.05)


# All pages


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", read(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", read(page)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        if not found.exists() or (anchor and anchor not in anchors(found)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_setting_that_a_page_sets_is_one(page: Path) -> None:
    for assignment in re.findall(r"--set '?([a-z_0-9.]+=[^\s'`)]+)", read(page)):
        if assignment != "key=value" and not assignment.startswith("task."):
            load("sql-gen", overrides=[assignment])


def commands(text: str) -> list[str]:
    """The calls of prefkit in fenced blocks and in inline code."""
    fenced = re.findall(r"^ *```.*?^ *```", text, re.MULTILINE | re.DOTALL)
    inline = re.findall(r"`(prefkit [^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL))
    lines = [line.strip() for block in fenced for line in block.splitlines()]
    return [line.partition("#")[0].strip() for line in (*lines, *inline) if line.startswith("prefkit ")]


def test_commands_are_found_where_they_stand() -> None:
    text = "prefkit improves a model\nSee `prefkit doctor`.\n```\nprefkit ready sql-gen   # first\n```\n  ```\n  prefkit ask RUN\n  ```\n"
    assert commands(text) == ["prefkit ready sql-gen", "prefkit ask RUN", "prefkit doctor"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_a_page_gives_is_one_with_its_options(page: Path) -> None:
    from importlib import import_module

    from prefkit.cli import COMMANDS
    from prefkit.commands.arguments import Parser

    for line in commands(read(page)):
        _, name, *words = line.split()
        if name.startswith("-"):
            continue
        assert name in COMMANDS, line
        command = import_module(f"prefkit.commands.{name}")
        parser = Parser(name, command.ABOUT, command.EXAMPLE)
        command.arguments(parser)
        options = [word for word in words if word.startswith("--")]
        assert [option for option in options if option not in parser._option_string_actions] == [], line


def test_every_shipped_recipe_is_named_in_the_readme() -> None:
    assert [name for name in resources.recipe_paths() if f"`{name}`" not in read(ROOT / "README.md")] == []


def rewrite() -> None:
    """Put the tables of settings as they are now into docs/recipe.md."""
    text = read(DOCS / "recipe.md")
    for group in GROUPS:
        begin, end = f"<!-- keys:{group} -->", "<!-- /keys -->"
        before, _, after = text.partition(begin)
        text = f"{before}{begin}\n{table(group)}\n{end}{after.partition(end)[2]}"
    (DOCS / "recipe.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    rewrite()
