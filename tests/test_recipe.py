"""Recipes: defaults, profiles, overrides, the hash that names a run, and a message with line and mend for every mistake."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from prefkit import recipe, recipe_text, resources
from prefkit.errors import RecipeError
from prefkit.recipe import Recipe, load

SHIPPED = sorted(resources.recipe_paths())


def written(folder: Path, text: str) -> Path:
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return file


# What is shipped


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("profile", ["cpu", "gpu", "smoke"])
def test_every_shipped_recipe_loads_in_every_profile_and_says_what_it_takes(name: str, profile: str) -> None:
    loaded = load(name, profile=profile)
    assert (loaded.name, loaded.profile) == (name, profile)
    assert loaded.title
    assert loaded.description
    assert loaded.expected is not None


def test_sql_gen_is_shipped_with_its_profiles() -> None:
    assert "sql-gen" in SHIPPED
    cpu, gpu, smoke = (load("sql-gen", profile=profile) for profile in recipe.PROFILES)
    assert (cpu.model.name, cpu.model.quantization) == ("embedded", "none")
    assert (gpu.model.name, gpu.model.quantization) == ("Qwen/Qwen2.5-Coder-1.5B-Instruct", "nf4")
    assert smoke.model == cpu.model
    assert [step.source for step in cpu.warm_start.rounds][:2] == ["references", "own"]
    assert cpu.limits.test is not None and cpu.limits.test >= 120
    assert cpu.limits.unseen is not None and cpu.limits.unseen >= 80
    assert cpu.calibrate.steps >= 10
    assert len({each.run_name for each in (cpu, gpu, smoke)}) == 3


def test_the_graph_of_next_recipes_has_only_recipes_that_are_there() -> None:
    edges = recipe.graph()
    assert list(edges) == SHIPPED
    assert {target for following in edges.values() for target in following} <= set(SHIPPED)


def test_a_dangling_next_recipe_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "recipe_paths", lambda: {"mine": written(tmp_path, "name: mine\nnext: [mien]\n")})
    with pytest.raises(RecipeError, match=r"next names the recipe 'mien'; did you mean mine"):
        recipe.graph()


# Values and layers


def test_a_short_recipe_has_every_default(tmp_path: Path) -> None:
    loaded = load(written(tmp_path, "name: mine\n"))
    assert loaded == Recipe(name="mine")
    assert loaded.warm_start.rounds[0].nll == 1.0


def test_layers_go_file_then_profile_then_overrides_then_model(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "name: mine\nseed: 1\nlimits: {test: 10, unseen: 11}\nprofiles:\n  smoke:\n    seed: 2\n    limits: {test: 20}\n"
        "    warm_start: {rounds: [{source: own}]}\n",
    )
    plain = load(file)
    assert (plain.seed, plain.limits.test, plain.limits.unseen, len(plain.warm_start.rounds)) == (1, 10, 11, 2)
    smoke = load(file, profile="smoke")
    assert (smoke.seed, smoke.limits.test, smoke.limits.unseen, len(smoke.warm_start.rounds)) == (2, 20, 11, 1)
    assert smoke.profile == "smoke"
    changed = load(file, profile="smoke", overrides=["seed=3", "seed=4", "model.name=a", "limits.unseen=null"], model="b")
    assert (changed.seed, changed.model.name, changed.limits.unseen, changed.limits.test) == (4, "b", None, 20)
    assert recipe.profiles_of(file) == ["cpu", "smoke"]


@pytest.mark.parametrize(
    ("assignment", "path", "value"),
    [
        ("calibrate.learning_rate=1e-4", "calibrate.learning_rate", 1e-4),
        ("calibrate.beta=0", "calibrate.beta", 0.0),
        ("warm_start.rounds.1.epochs=2", "warm_start.rounds.1.epochs", 2),
        ("model.lora.targets=[q_proj, v_proj]", "model.lora.targets", ["q_proj", "v_proj"]),
        ("track.wandb=off", "track.wandb", "off"),
        ("threads=null", "threads", None),
        ("description=it learns: SQL", "description", "it learns: SQL"),
        ("title=a = b", "title", "a = b"),
        ("expected.minutes=3", "expected.minutes", 3.0),
    ],
)
def test_overrides_reach_every_depth(assignment: str, path: str, value: Any) -> None:
    found: Any = load("sql-gen", overrides=[assignment])
    for part in path.split("."):
        found = found[int(part)] if part.isdigit() else getattr(found, part)
    assert found == value
    assert type(found) is type(value)


def test_yaml_reads_as_a_person_does(tmp_path: Path) -> None:
    file = written(tmp_path, "name: mine\ntitle: 12:30\ntrack: {wandb: off}\ncalibrate: {learning_rate: 1e-3, steps: 010}\n")
    loaded = load(file)
    assert (loaded.title, loaded.track.wandb, loaded.calibrate.learning_rate, loaded.calibrate.steps) == ("12:30", "off", 1e-3, 10)


def test_own_data_is_found_from_the_folder_it_was_named_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "work" / "model").mkdir(parents=True)
    file = written(tmp_path / "recipes", "name: mine\ntask: {database: [a.sqlite, /b.sqlite], questions: q.csv}\n")
    monkeypatch.chdir(tmp_path / "work")
    loaded = load(file, overrides=["task.questions=my.csv"], model="model")
    assert loaded.task.database == [str(tmp_path / "recipes" / "a.sqlite"), "/b.sqlite"]
    assert loaded.task.questions == str(tmp_path / "work" / "my.csv")
    assert loaded.model.name == str(tmp_path / "work" / "model")
    assert load(file, model="Qwen/Qwen2.5-Coder-1.5B-Instruct").model.name == "Qwen/Qwen2.5-Coder-1.5B-Instruct"


def test_a_run_folder_loads_as_what_it_ran(tmp_path: Path) -> None:
    smoke = load("sql-gen", profile="smoke", overrides=["seed=5"])
    (tmp_path / "recipe.yaml").write_text(smoke.to_yaml())
    assert load(tmp_path) == smoke
    assert load(tmp_path / "recipe.yaml", profile="smoke") == smoke
    with pytest.raises(RecipeError, match="has no profile cpu; there is: smoke"):
        load(tmp_path, profile="cpu")


# The hash


def test_the_hash_counts_what_changes_a_result_and_nothing_else() -> None:
    recipe = load("sql-gen")
    base, beta = recipe.configuration_hash(), recipe.calibrate.beta
    same = ["title=x", "description=x", "threads=1", "track.wandb=off", "expected=null", "next=[]", "seed=17", f"calibrate.beta={beta}"]
    other = ["seed=18", f"calibrate.beta={beta + 0.01}", "limits.test=null", "model.lora.rank=8", "evaluate.k=9"]
    other += ["warm_start.rounds.0.epochs=7"]
    assert {load("sql-gen", overrides=[assignment]).configuration_hash() for assignment in same} == {base}
    hashes = [load("sql-gen", overrides=[assignment]).configuration_hash() for assignment in other]
    assert len({base, *hashes}) == len(other) + 1
    assert re.fullmatch(r"sql-gen-[0-9a-f]{10}", load("sql-gen").run_name)


settings = st.fixed_dictionaries(
    {"name": st.just("mine")},
    optional={
        "title": st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20),
        "seed": st.integers(0, 2**32 - 1),
        "limits": st.fixed_dictionaries({}, optional={"test": st.none() | st.integers(1, 999), "own": st.none() | st.integers(1, 999)}),
        "calibrate": st.fixed_dictionaries(
            {}, optional={"learning_rate": st.floats(0, 1), "steps": st.integers(0, 99), "beta": st.integers(0, 9)}
        ),
        "model": st.fixed_dictionaries(
            {}, optional={"name": st.sampled_from(["embedded", "off", "1e-3", "null", "012", "1_000", "a: b", "~x", "0x1f"])}
        ),
        "warm_start": st.fixed_dictionaries(
            {"rounds": st.lists(st.fixed_dictionaries({"source": st.sampled_from(["own", "references"])}), min_size=1, max_size=3)}
        ),
    },
)


@given(settings, st.randoms())
def test_the_hash_does_not_depend_on_order_defaults_comments_or_form(values: dict[str, Any], randomness: random.Random) -> None:
    def shuffled(item: Any) -> Any:
        return {key: shuffled(item[key]) for key in randomness.sample(list(item), len(item))} if isinstance(item, dict) else item

    def read(text: str) -> Recipe:
        return Recipe.model_validate(recipe_text.read(text, "mine.yaml").values)

    first = Recipe.model_validate(values)
    text = recipe_text.write(shuffled(values))
    assert read(text) == first
    assert read("# a comment\n" + text + "\n# another\n").configuration_hash() == first.configuration_hash()
    assert read(first.to_yaml()) == first
    assert read(yaml.dump(yaml.safe_load(first.to_yaml()), Dumper=recipe_text._Dumper, default_flow_style=True)) == first
    assert first.model_copy(update={"seed": (first.seed + 1) % 2**32}).configuration_hash() != first.configuration_hash()


@pytest.mark.parametrize(
    "text", ["1e-3", "1e3", "08", "012", "+.5", "off", "null", "~", "", "1_000", "0x1f", "12:30", "a: b", "#x", "true", ".nan", " x "]
)
def test_text_that_looks_like_something_else_stays_text(text: str) -> None:
    values = {"name": text, "list": [text, {"deep": text}]}
    assert recipe_text.read(recipe_text.write(values), "mine.yaml").values == values
    assert yaml.safe_load(recipe_text.write(values)) == values


# Mistakes

MISTAKES = {
    "unknown key": (
        "name: mine\nrolouts: {temperature: 1}\n",
        "mine.yaml:2: unknown key rolouts; did you mean rollouts? A recipe has: name, ",
    ),
    "unknown key, deep": (
        "name: mine\nwarm_start:\n  rounds:\n    - source: own\n      epocs: 3\n",
        "mine.yaml:5: unknown key warm_start.rounds.0.epocs; did you mean warm_start.rounds.0.epochs? warm_start.rounds.0 has: source, ",
    ),
    "right key, wrong group": ("name: mine\nepochs: 3\n", "mine.yaml:2: unknown key epochs; did you mean warm_start.rounds.0.epochs? "),
    "wrong type": ("name: mine\nseed: soon\n", 'mine.yaml:2: seed is the text "soon"; expected a whole number, at least 0'),
    "number as text": ("name: mine\nseed: '3'\n", "Write it without quotes."),
    "fraction": ("name: mine\nthreads: 1.5\n", "mine.yaml:2: threads is 1.5; expected a whole number from 1 to 4096, or null"),
    "number as yes": ("name: mine\nseed: true\n", "mine.yaml:2: seed is true; expected a whole number"),
    "text as switch": (
        "name: mine\ntask: {schema_values: yes}\n",
        'mine.yaml:2: task.schema_values is the text "yes"; expected true or false',
    ),
    "too small": (
        "name: mine\ncalibrate:\n  k: 0\n",
        "mine.yaml:3: calibrate.k is 0; expected a whole number from 2 to 256 (answers for each",
    ),
    "zero temperature": ("name: mine\nrollouts: {temperature: 0}\n", "rollouts.temperature is 0; expected a number, above 0 and at most 5"),
    "not finite": ("name: mine\ncalibrate: {beta: .inf}\n", "calibrate.beta is inf; expected a number from 0 to 10"),
    "not one of": (
        "name: mine\nmodel: {quantization: nf5}\n",
        'model.quantization is the text "nf5"; expected one of none, nf4, int8 (how the frozen weights are stored). Did you mean nf4?',
    ),
    "group as text": ("name: mine\nlimits: all\n", 'limits is the text "all"; expected a group of settings (readiness, references, '),
    "entry as text": ("name: mine\nwarm_start: {rounds: [own]}\n", 'warm_start.rounds.0 is the text "own"; expected a group of settings'),
    "empty list": (
        "name: mine\nwarm_start: {rounds: []}\n",
        "warm_start.rounds is the list []; expected a list of groups of settings, not empty",
    ),
    "union": (
        "name: mine\ntask: {database: 3, questions: q}\n",
        "task.database is 3; expected text or a list of texts, or null (your SQLite",
    ),
    "union entry": ("name: mine\ntask: {database: [3], questions: q}\n", "mine.yaml:2: task.database is the list [3]; expected text or a"),
    "missing": ("title: x\n", "mine.yaml: name is missing; expected text (small letters, digits and hyphens"),
    "missing, deep": (
        "name: mine\nwarm_start:\n  rounds:\n    - epochs: 2\n",
        "mine.yaml:4: warm_start.rounds.0.source is missing; expected one of",
    ),
    "bad name": ("name: My Recipe\n", 'mine.yaml:1: name is the text "My Recipe"; expected text (small letters, digits and hyphens'),
    "half of the own data": (
        "name: mine\ntask:\n  database: a.sqlite\n",
        "task.database is given but task.questions is not; your own data needs",
    ),
    "empty path": ("name: mine\ntask: {database: [], questions: q}\n", "task.database names no file"),
    "nothing to learn": (
        "name: mine\nwarm_start: {rounds: [{source: own, nll: 0, contrast: 0}]}\n",
        "mine.yaml:2: nll and contrast are both 0",
    ),
    "key twice": ("name: mine\nseed: 1\nseed: 2\n", "mine.yaml:3: seed is given twice, first in line 2. Keep one."),
    "no YAML": ("name: mine\nlimits: {test: 3\nseed: 4\n", "mine.yaml:3: this is no YAML: "),
    "tab": ("name: mine\nlimits:\n\ttest: 3\n", "mine.yaml:3: this is no YAML: "),
    "list at the top": ("- name: mine\n", "mine.yaml:1: a recipe is a list of `key: value` lines; this file has none."),
    "empty": ("", "mine.yaml:1: a recipe is a list of `key: value` lines"),
    "tag": ("name: !!python/name:os.system x\n", "mine.yaml:1: the tag tag:yaml.org,2002:python/name:os.system is not known here"),
    "itself": ("name: mine\ntask: &a {dataset: *a}\n", "mine.yaml:2: this value contains itself"),
    "unknown profile": ("name: mine\nprofiles:\n  smoek: {seed: 1}\n", "mine.yaml:3: there is no profile 'smoek'; did you mean smoke?"),
    "mistake in a profile": ("name: mine\nprofiles:\n  gpu:\n    seeds: 1\n", "mine.yaml:4: unknown key seeds; did you mean seed?"),
    "profile as text": ("name: mine\nprofiles: {gpu: nf4}\n", "mine.yaml:2: the profile gpu is 'nf4'; expected the settings that differ."),
    "profiles as list": (
        "name: mine\nprofiles: [gpu]\n",
        "mine.yaml:2: profiles is ['gpu']; expected a group with any of cpu, gpu, smoke.",
    ),
    "profile with a name": ("name: mine\nprofiles: {gpu: {name: other}}\n", "mine.yaml:2: a profile cannot change name; take it out."),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_its_line_and_the_mend(tmp_path: Path, mistake: str) -> None:
    text, message = MISTAKES[mistake]
    with pytest.raises(RecipeError) as caught:
        load(written(tmp_path, text))
    assert message in str(caught.value)
    assert str(tmp_path / "mine.yaml") in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load(written(tmp_path, "name: mine\nseed: x\ncalibrate: {k: 1, kk: 2}\n"))
    assert [re.sub(r".*mine\.yaml:(\d+): (.*?)[ ;].*", r"\1 \2", line) for line in str(caught.value).splitlines()] == [
        "2 seed", "3 calibrate.k", "3 unknown",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("limits.test", "--set limits.test: expected key=value, for example --set limits.test=120"),
        ("=3", "--set =3: expected key=value"),
        ("limits..test=3", "--set limits..test=3: expected key=value"),
        ("limits.tset=3", "--set limits.tset=3: unknown key limits.tset; did you mean limits.test? limits has: readiness, "),
        ("limits.test=-1", "--set limits.test=-1: limits.test is -1; expected a whole number, at least 1, or null"),
        ("model.dtype=fp32", "expected one of auto, bfloat16, float32"),
        ("warm_start.rounds.7.epochs=2", "warm_start.rounds is a list and has no entry 7; it has the entries 0, 1."),
        ("warm_start.rounds.own.epochs=2", "warm_start.rounds is a list and has no entry own; it has the entries 0, 1."),
        ("seed.x=1", "seed is a single value (17) without seed.x. Use --set seed=VALUE."),
        ("task.database=my.sqlite", "--set task.database=my.sqlite: task.database is given but task.questions is not"),
        ("profile=smoke", "choose a profile with --profile cpu|gpu|smoke"),
        ("profiles.smoke.seed=1", "choose a profile with --profile cpu|gpu|smoke"),
        ("name=other", "choose a run folder with --run DIR"),
    ],
)
def test_a_bad_override_is_told_with_the_mend(assignment: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load("sql-gen", overrides=["seed=17", assignment])
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"--set {assignment}: ")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("sql-gne", 'there is no recipe "sql-gne"; did you mean sql-gen?'),
        ("nothing-like-it", 'there is no recipe "nothing-like-it"; '),
        ("no/such.yaml", "no/such.yaml: there is no such file. Shipped recipes: "),
    ],
)
def test_an_unknown_recipe_is_told_with_the_nearest(source: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(source)
    assert str(caught.value).startswith(message)
    assert "sql-gen" in str(caught.value)


def test_an_unknown_profile_is_told_with_those_there_are() -> None:
    with pytest.raises(RecipeError, match=r"no profile 'smoky'; did you mean smoke\? There are: cpu, gpu, smoke"):
        load("sql-gen", profile="smoky")


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"name: \xff\xfe\n")
    with pytest.raises(RecipeError, match=r"mine\.yaml: not UTF-8 text \(byte 6\)"):
        load(tmp_path / "mine.yaml")
