"""`prefkit ask`: what the base model and the trained one answer to a question, side by side, with the rows of their queries."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefkit.commands.arguments import Parser
from prefkit.errors import DataError, RunError

if TYPE_CHECKING:
    from prefkit.recipe import Recipe
    from prefkit.runfolder import RunFolder
    from prefkit.tasks.sql import SqlTask
    from prefkit.verify.query import QueryResult

ABOUT = "Ask a run's base model and its trained model a question; show both queries side by side, each executed, with its rows."
EXAMPLE = 'prefkit ask runs/sql-gen-0123456789 "How many orders are open?" --database shop'
MOST_ROWS, SHOWN_ROWS = 50, 10
SIDES = {"base": "Base model", "trained": "Trained model"}
_WORD = re.compile(r"[a-z]+|\d+")
# fmt: off
_TELLING_NOTHING = frozenset([
    "all", "and", "any", "are", "does", "did", "each", "every", "for", "from", "give", "has", "have", "how", "its", "list", "many", "more",
    "most", "much", "name", "names", "not", "number", "only", "our", "per", "show", "than", "that", "the", "their", "them", "there", "they",
    "this", "was", "were", "what", "when", "where", "which", "who", "whose", "with",
])
# fmt: on


@dataclass(frozen=True, slots=True)
class Reply:
    """One model's answer: its text, the query in it (None where there is none), and what came of it."""

    completion: str
    sql: str | None
    result: QueryResult | None


def arguments(parser: Parser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder that is finished")
    parser.add_argument("question", metavar='"question"', help="in the words of a person")
    parser.add_argument(
        "--database",
        metavar="NAME",
        help="which of the run's databases (else the only one, or the one whose schema has the question's words)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")


def run(options: Any) -> int:
    from prefkit import recipe
    from prefkit.context import load_task
    from prefkit.runfolder import RunFolder

    source = RunFolder.existing(options.run)
    adapter = source.file("adapter")
    if not (adapter / "adapter_model.safetensors").is_file():
        raise RunError(f"{source.path} has no trained adapter yet. Let the run end: prefkit recipe {source.path} --resume")
    if not options.question.strip():
        raise DataError('the question is empty; for example: prefkit ask RUN "How many customers are there?"')
    chosen = recipe.load(source.path)
    task = load_task(chosen)
    database, why = choose_database(task, options.question, options.database)
    replies = answer(source, chosen, task, database, options.question, adapter)
    file = task.databases[database][0]
    if options.json:
        print(json.dumps(as_json(options.question, database, file, replies)))
    else:
        show(options.question, database, why, file, replies)
    return 0


def choose_database(task: SqlTask, question: str, wanted: str | None) -> tuple[str, str]:
    """(database, why that one). DataError with all of them where the question does not tell."""
    from prefkit.names import suggestion

    names = list(task.databases)
    if wanted is not None:
        if wanted not in names:
            raise DataError(f'this run has no database "{wanted}"; {suggestion(wanted, names)}')
        return wanted, ""
    if len(names) == 1:
        return names[0], ""
    asked = stems(question)
    schemas = {name: task.schema(name) for name in names}
    known = {name: stems(schema) for name, schema in schemas.items()}
    tables = {name: stems(" ".join(re.findall(r"(?m)^[^:]+", schema))) for name, schema in schemas.items()}
    # A word that few schemas have tells more than one that many have, and a table's name more than a column's or a value.
    weights = {word: 1 / found for word in asked if (found := sum(word in words for words in known.values()))}
    scores = {name: sum(weight * (1 + (word in tables[name])) for word, weight in weights.items() if word in known[name]) for name in names}
    first, second = sorted(scores.values(), reverse=True)[:2]
    if first <= second:
        raise DataError(
            f"this run has several databases, and the question does not tell which; name one with --database: {', '.join(names)}."
        )
    best = max(scores, key=lambda name: scores[name])
    shared = sorted(asked[word] for word in weights if word in known[best])
    return best, f"chosen because its schema has: {', '.join(shared)}; --database names another"


def stems(text: str) -> dict[str, str]:
    """The words of a text or of the names in a schema that tell something: without the ending of the plural -> as written."""
    words = _WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())
    return {_singular(word): word for word in words if len(word) > 2 and word not in _TELLING_NOTHING}


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if re.search(r"(?:ss|x|ch|sh)es$", word):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us")) else word


def answer(source: RunFolder, chosen: Recipe, task: SqlTask, database: str, question: str, adapter: Path) -> dict[str, Reply]:
    """Both models' likeliest answers, executed on the first data instance of the database."""
    from prefkit.commands import machine
    from prefkit.context import Context
    from prefkit.progress import Progress
    from prefkit.resources import cache_dir
    from prefkit.scale.workers import Workers, plan_processes
    from prefkit.verify.extract import extract_sql
    from prefkit.verify.query import query
    from prefkit.verify.scheduler import Scheduler

    machine.require(chosen.profile, chosen.model.name)
    prompt = {"name": "ask", "messages": task.prompt_for(database, question)}
    completions: dict[int, str] = {}
    processes = min(len(SIDES), chosen.threads or plan_processes()[0])
    with Workers(cache_dir("logs"), processes) as pool, Scheduler(workers=1) as scheduler, Progress() as progress:
        context = Context(chosen, source, task, pool, scheduler, progress)
        batches = [
            {
                "model": context.model,
                "adapter": folder,
                "prompts": [prompt],
                "k": 0,
                "greedy": True,
                "temperature": 1.0,
                "max_new_tokens": chosen.rollouts.max_new_tokens,
                "seed": chosen.seed,
            }
            for folder in (None, str(adapter.resolve()))
        ]
        for number, result in progress.track(pool.map("answer", batches), "answers", len(batches)):
            completions[number] = result[0]["answers"][0]["completion"]
        replies = {}
        for number, side in enumerate(SIDES):
            sql = extract_sql(completions[number])
            result = query(scheduler, str(task.databases[database][0]), sql, chosen.task.timeout_s, MOST_ROWS) if sql else None
            replies[side] = Reply(completions[number], sql, result)
    return replies


def show(question: str, database: str, why: str, file: Path, replies: dict[str, Reply]) -> None:
    """The two answers in two columns of the terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from prefkit.commands.terminal import console, shown

    print(shown(question))
    print(f"database {shown(database)}" + (f" ({why})" if why else "") + f", executed on {shown(file.name)}\n")
    screen = console()
    sides = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=False)
    for title in SIDES.values():
        sides.add_column(Text(title), ratio=1, overflow="fold", vertical="top")
    sides.add_row(*(Group(Text("─" * 12), *_side(reply)) for reply in replies.values()))
    screen.print(sides)
    compared = _comparison(*(reply.result for reply in replies.values()))
    if compared:
        print(f"\n{compared}")


def _comparison(base: QueryResult | None, trained: QueryResult | None) -> str:
    """Whether two queries returned the same rows, where both ran to their end. Which is right nobody says: there is no reference."""
    from prefkit.verify.compare import same_bag

    if base is None or trained is None or base.reason or trained.reason or base.truncated or trained.truncated:
        return ""
    if len(base.columns) == len(trained.columns) and same_bag(base.rows, trained.rows):
        return "Both return the same rows."
    return "They return different rows. Which is right is not judged: this question has no reference answer."


def _side(reply: Reply) -> list[Any]:
    from rich.text import Text

    from prefkit.commands.terminal import cell, shown, table

    if reply.sql is None or reply.result is None:
        return [Text("no query in the answer:"), Text(shown(reply.completion) or "(it is empty)")]
    said: list[Any] = [Text(shown(reply.sql)), Text("")]
    result = reply.result
    if result.reason:
        return [*said, Text(f"{result.status}: {shown(result.reason)}")]
    if not result.rows:
        return [*said, Text("no rows")]
    numbers = [index for index in range(len(result.columns)) if all(isinstance(row[index], int | float) for row in result.rows)]
    rows = [[cell(value) for value in row] for row in result.rows[:SHOWN_ROWS]]
    said.append(table([cell(name) for name in result.columns], rows, right=numbers))
    left = len(result.rows) - SHOWN_ROWS
    if result.truncated or left > 0:
        said.append(Text(f"and {'more than ' if result.truncated else ''}{max(left, 0)} more rows"))
    return said


def as_json(question: str, database: str, file: Path, replies: dict[str, Reply]) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "question": question,
        "database": database,
        "file": str(file),
        **{
            side: {
                "completion": reply.completion,
                "sql": reply.sql,
                "status": str(reply.result.status) if reply.result else None,
                "reason": reply.result.reason if reply.result else "no query in the answer",
                "columns": reply.result.columns if reply.result else [],
                "rows": [[_plain(value) for value in row] for row in reply.result.rows] if reply.result else [],
                "truncated": bool(reply.result and reply.result.truncated),
            }
            for side, reply in replies.items()
        },
    }


def _plain(value: object) -> object:
    """JSON knows no blobs, no infinity and no NaN."""
    if isinstance(value, bytes):
        return {"blob": value.hex()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
