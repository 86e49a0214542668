"""The names of a schema and its values as a person says them: `InvoiceLine` -> invoice line, invoice lines; 2021-03-12 -> 12 March 2021.

English, and by rule: a name that follows none of them comes out a little odd, never wrong in what it means.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence


def word_set(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


_CHUNK = re.compile(r"[^\W_]+")
_IRREGULAR = {
    "person": "people", "child": "children", "man": "men", "woman": "women", "foot": "feet", "tooth": "teeth", "mouse": "mice",
    "criterion": "criteria", "analysis": "analyses", "basis": "bases", "leaf": "leaves", "life": "lives", "half": "halves",
    "shelf": "shelves", "index": "indexes", "quiz": "quizzes", "movie": "movies", "cookie": "cookies",
}  # fmt: skip
_SINGULAR = {many: one for one, many in _IRREGULAR.items()}
_SOUND = {"hour": "an", "honour": "an", "honor": "an", "heir": "an", "honest": "an", "unit": "a", "user": "a", "union": "a", "unique": "a",
          "university": "a", "usage": "a", "use": "a", "url": "a", "uri": "a", "uuid": "a", "euro": "a", "european": "a", "one": "a",
          "utility": "a", "uniform": "a", "unified": "a"}  # fmt: skip


_SAME = word_set(
    "media data news series species staff equipment information feedback inventory software hardware furniture fish sheep history stock"
)
_ENDS_IN_S = word_set("status bonus campus virus bus gas lens address access process business class pass boss loss cross press")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def words_of(name: str) -> list[str]:
    """The words of a name in small letters.

    >>> words_of("BillingPostalCode"), words_of("order_lines"), words_of("sbCustID2")
    (['billing', 'postal', 'code'], ['order', 'lines'], ['sb', 'cust', 'id', '2'])
    """
    return [part.lower() for chunk in _CHUNK.findall(name) for part in _humps(chunk)] or [name.strip().lower() or "value"]


def shared_prefix(names: Sequence[Sequence[str]]) -> int:
    """How many words all of at least three names begin with, one word of each being left: `sb_cust_name`, `sb_cust_city`, … -> 2."""
    if len(names) < 3:
        return 0
    least = min(map(len, names)) - 1
    return next((i for i in range(least) if len({words[i] for words in names}) > 1), max(least, 0))


def plural(words: str) -> str:
    """The plural of the last word.

    >>> plural("invoice line"), plural("category"), plural("box"), plural("day"), plural("person"), plural("status")
    ('invoice lines', 'categories', 'boxes', 'days', 'people', 'statuses')
    """
    *before, word = words.split(" ")
    return " ".join([*before, _plural(word)])


def singular(words: str) -> str:
    """The singular of the last word, where that is a plural.

    >>> singular("order lines"), singular("categories"), singular("addresses"), singular("people"), singular("status")
    ('order line', 'category', 'address', 'person', 'status')
    """
    *before, word = words.split(" ")
    return " ".join([*before, _singular(word)])


def with_article(words: str) -> str:
    """The words with "a" or "an" before them.

    >>> with_article("invoice date"), with_article("unit price"), with_article("hour")
    ('an invoice date', 'a unit price', 'an hour')
    """
    first = words.split(" ")[0]
    return f"{_SOUND.get(first, 'an' if first[:1] in 'aeiou' else 'a')} {words}"


def listed(parts: Iterable[str], last: str = "and") -> str:
    """The parts as a list in a sentence: a, b and c."""
    *before, end = parts
    return f"{', '.join(before)} {last} {end}" if before else end


def day(date: str) -> str:
    """A date as a person says it.

    >>> day("2021-03-02")
    '2 March 2021'
    """
    found = datetime.date.fromisoformat(date[:10])
    return f"{found.day} {_MONTHS[found.month - 1]} {found.year}"


def month(date: str) -> str:
    """The month of a date: March 2021."""
    return f"{_MONTHS[int(date[5:7]) - 1]} {date[:4]}"


def _humps(chunk: str) -> list[str]:
    """A chunk of letters and digits cut where a word begins: InvoiceLine, HTTPStatus, address1."""
    parts = [chunk[0]]
    for before, here, after in zip(chunk, chunk[1:], [*chunk[2:], ""], strict=False):
        begins = here.isupper() and (not before.isupper() or after.islower())
        if begins or here.isdigit() != before.isdigit():
            parts.append(here)
        else:
            parts[-1] += here
    return parts


def _plural(word: str) -> str:
    if word in _SAME or word in _SINGULAR:
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if _singular(word) != word:
        return word
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(s|x|z|ch|sh)$", word) else "s")


def _singular(word: str) -> str:
    if word in _SINGULAR:
        return _SINGULAR[word]
    if word in _SAME or word in _ENDS_IN_S or word in _IRREGULAR or not word.endswith("s") or re.search(r"(ss|us|is)$", word):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if re.search(r"(ss|x|z|ch|sh)es$", word) or (word.endswith("es") and word[:-2] in _ENDS_IN_S):
        return word[:-2]
    return word[:-1]
