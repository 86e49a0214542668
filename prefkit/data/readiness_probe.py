"""What a model's likelihoods show before it can answer anything: does a question bear on its query, and is the whole schema seen?

Both are asked in the same form. Two prompts have one right query each, and the model gives the likelihood of each query after each prompt,
four in all. It passes where the two right likelihoods together are greater than the two crossed ones. What a model likes or dislikes about
a query as such, its length or its words, stands on both sides and cancels, so that a model which does not use the prompt passes half of
the time, whatever its habits.

- **Golds**: two questions on one database and their two golds.
- **Needle**: two tables that are made up, with a column each, stand at one end of the longest schema; the second prompt has the two columns
  swapped. The question names a table, the queries differ in the column. At the far end (the first lines of the prompt) only a model that
  sees all of it can tell; at the near end (the last lines before the question) it need not look far. The near end is the control: where
  that fails too, the far end says nothing of distance.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from prefkit.statistics import Interval, wilson
from prefkit.tasks.base import Example, Message, Task
from prefkit.tasks.sql_text import normalised

TABLES = (
    "anchors", "badges", "crates", "drills", "easels", "ferries", "gauges", "hammers", "islands", "jackets", "kettles", "lanterns",
    "meadows", "needles", "organs", "paddles", "quarries", "ribbons", "saddles", "tunnels",
)  # fmt: skip
COLUMNS = (
    "amber_code", "bark_depth", "chalk_mark", "dust_level", "ember_count", "frost_grade", "grain_width", "hinge_type",
    "ink_shade", "jewel_cut", "knot_size", "loop_speed", "moss_cover", "notch_angle", "oak_share", "pitch_tone", "quill_length",
    "rust_stage", "salt_score", "thread_colour",
)  # fmt: skip

Row = dict[str, Any]
Scores = list[list[Row]]


@dataclass(frozen=True, slots=True)
class Match:
    """Two prompts and their two queries: `queries[i]` is the right one for `prompts[i]`."""

    prompts: tuple[list[Message], list[Message]]
    queries: tuple[str, str]

    @property
    def rows(self) -> list[Row]:
        """What the model job `likelihoods` scores: each prompt with both queries."""
        return [{"messages": prompt, "answers": list(self.queries)} for prompt in self.prompts]


def gold_matches(task: Task, examples: Sequence[Example], most: int) -> list[Match]:
    """At most `most` pairs of questions on one database with different golds, each question in one pair, in turn over the databases."""
    by_database: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        by_database[example.database].append(example)
    queues = [list(_different_pairs(group)) for group in by_database.values()]
    turns = [pair for place in range(max(map(len, queues), default=0)) for queue in queues if place < len(queue) for pair in [queue[place]]]
    return [Match((task.prompt(one), task.prompt(other)), (one.golds[0], other.golds[0])) for one, other in turns[:most]]


def _different_pairs(examples: Sequence[Example]) -> list[tuple[Example, Example]]:
    left, pairs = list(examples), []
    while left:
        one = left.pop(0)
        golds = set(map(normalised, one.golds))
        other = next((example for example in left if golds.isdisjoint(map(normalised, example.golds))), None)
        if other is not None:
            left.remove(other)
            pairs.append((one, other))
    return pairs


def needle_matches(prompt: Sequence[Message] | None, most: int, seed: int) -> dict[str, list[Match]]:
    """`far` and `near`: at most `most` matches each, made from the longest prompt of a task; none without one.

    The prompt's last message is the schema, an empty line and the question. The tables, columns and questions are the same at both ends.
    Names that stand in the schema already are not used.
    """
    if not prompt:
        return {"far": [], "near": []}
    *before, last = prompt
    schema = last["content"].rpartition("\n\n")[0]
    tables, columns = ([name for name in names if name not in schema] for names in (TABLES, COLUMNS))
    draw = random.Random(f"prefkit needle {seed}")
    found: dict[str, list[Match]] = {"far": [], "near": []}
    if len(tables) < 2 or len(columns) < 2:
        return found
    for _ in range(most):
        (first, second), (asked, other) = draw.sample(tables, 2), draw.sample(columns, 2)
        question = f"What is stored for the {first}?"
        for end, matches in found.items():
            prompts = []
            for columns_of in ((asked, other), (other, asked)):
                lines = "\n".join(f"{table}: id, {column}" for table, column in zip((first, second), columns_of, strict=True))
                text = f"{lines}\n{schema}" if end == "far" else f"{schema}\n{lines}"
                prompts.append([*before, {**last, "content": f"{text}\n\n{question}"}])
            matches.append(
                Match((prompts[0], prompts[1]), (f"SELECT {first}.{asked} FROM {first}", f"SELECT {first}.{other} FROM {first}"))
            )
    return found


def passed(scores: Scores) -> Interval:
    """The share of matches that a model passes, with its interval. `scores`: what `likelihoods` returned for the rows of all, in order."""
    pairs = list(zip(scores[::2], scores[1::2], strict=True))
    right = sum(one[0]["logprob"] + other[1]["logprob"] > one[1]["logprob"] + other[0]["logprob"] for one, other in pairs)
    return wilson(right, len(pairs))


def nats_per_character(matches: Sequence[Match], scores: Scores) -> float | None:
    """The mean negative log-likelihood of a right query's character; None without any. By character, so that models whose tokens differ can
    be compared."""
    characters = sum(len(query) for match in matches for query in match.queries)
    own = sum(row[number % 2]["logprob"] for number, row in enumerate(scores))  # rows come in pairs, one for each query in turn
    return -own / characters if characters else None


def parted(scores: Scores, *counts: int) -> list[Scores]:
    """The scores of several lists of matches that were scored together; `counts` says how many matches each list has."""
    found = iter(scores)
    return [list(islice(found, 2 * count)) for count in counts]
