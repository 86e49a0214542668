"""Take out of free text what must not be kept: addresses, numbers and keys of people. Each find is replaced by its kind, and counted.

| kind     | what is found                                                                                                         |
|----------|-----------------------------------------------------------------------------------------------------------------------|
| pem      | a block between -----BEGIN … and -----END …; one that never ends, to the end of the text                                |
| jwt      | three parts in base64 that begin with eyJ                                                                               |
| key      | the known beginnings sk-, pk-, rk-, AKIA, ASIA, ghp_ (and its kin), github_pat_, glpat-, xox…-, AIza, hf_; and 16 or more |
|          | characters of hex or base64 after a word such as key, token, secret, bearer                                             |
| password | what follows password, passwd, pwd or passphrase and a colon, an equals sign or "is"; the part before @ in a URL         |
| email    | name@domain.tld                                                                                                         |
| iban     | two letters, two digits, and a remainder of 1 modulo 97 (ISO 13616)                                                     |
| card     | 13 to 19 digits, in groups or not, that pass Luhn's check (ISO/IEC 7812-1)                                              |
| phone    | a number that begins with + or 00; groups that begin with 0 or a bracket; 555-123-4567; digits after phone, tel, call …  |

It errs on the side of taking out. What a pattern does not know stays: a name, an address of a street, a number without its word. Time is
linear in the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

KINDS = ("pem", "jwt", "key", "password", "email", "iban", "card", "phone")

_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{2,60}-----.*?(?:-----END [A-Z0-9 ]{2,60}-----|\Z)", re.DOTALL)
_JWT = re.compile(r"(?<![\w-])eyJ[\w-]{6,}+\.[\w-]{4,}+(?:\.[\w-]*+)?", re.ASCII)
_KNOWN_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}+|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}+|gh[pousr]_[A-Za-z0-9]{16,}+"
    r"|github_pat_\w{16,}+|glpat-[\w-]{12,}+|xox[a-z]-[\w-]{8,}+|AIza[\w-]{20,}+|hf_[A-Za-z0-9]{16,}+)",
    re.ASCII,
)
_WORD = r"(?i)((?<![A-Za-z])(?:[a-z0-9]{1,20}[_-]){0,3}(?:key|token|secret|credentials?|bearer|authorization|signature)s?"
_ASSIGNED = r"""["'`]?\s{0,3}(?:[:=]{1,2}>?|\bis\b)\s{0,3}["'`]?"""
_NAMED_KEY = re.compile(_WORD + _ASSIGNED + r"(?:bearer\s{1,3}|basic\s{1,3})?)([A-Za-z0-9+/_=-]{16,}+)")
_BEARER = re.compile(r"(?i)((?<![A-Za-z])(?:bearer|basic)\s{1,3})((?=[A-Za-z+/_=.~-]*+\d)[A-Za-z0-9+/_=.~-]{12,}+)")
# Words follow each other with a space alone, too: what is a key has a digit.
_SPACED_KEY = re.compile(_WORD + r"\s{1,3}[\"'`]?)((?=[A-Za-z+/_=-]*+\d)[A-Za-z0-9+/_=-]{16,}+)")
_PASSWORD = re.compile(
    r"""(?i)((?<![A-Za-z])(?:password|passwd|passphrase|pwd)s?["'`]?\s{0,3}(?:[:=]{1,2}>?\s{0,3}|is\s{1,3}(?=\S{0,80}[\d!#$%&*])))(["'`]?)([^\s"'`\[]{4,})"""
)
_URL_PASSWORD = re.compile(r"((?<![\w+.-])[A-Za-z][\w+.-]{1,20}://[^\s/:@]{0,80}:)([^\s/@]{1,200})(?=@)")
_EMAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]{1,120}+@(?:[\w-]{1,63}+\.){1,8}[^\W\d_]{2,24}")
_IBAN = re.compile(r"(?i)(?<![A-Z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{1,4}){3,9}", re.ASCII)
_DIGITS = re.compile(r"(?<![\d.])\d(?:[ -]?\d){12,}+(?!\d)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}-\d{1,2}-\d{4}", re.ASCII)
_PHONE = re.compile(
    r"(?<![\w.+-])(?:(?:\+|00)\d{1,3}(?:[ ./-]{0,2}(?:\(\d{1,5}\)|\d{2,})){1,6}|\(0?\d{2,5}\)[ ./-]{0,2}\d{2,4}(?:[ .-]?\d{2,6}){1,3}"
    r"|0\d{1,5}[ /-]\d{2,8}(?:[ -]\d{2,6}){0,3}|\d{3}[-. ]\d{3}[-. ]\d{4})(?![\w-])",
    re.ASCII,
)
_NAMED_PHONE = re.compile(
    r"(?i)(\b(?:phone|telephone|tel|mobile|cell|fax|call|whatsapp)\b[^\d\n+]{0,15})(\+?\d[\d ()/.-]{5,20}\d)", re.ASCII
)


class Redactor:
    """Replaces finds by their kind in brackets, such as [EMAIL]. `counts`: how many of each kind it has replaced so far."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __call__(self, text: str) -> str:
        """`text` without what was found. What is redacted already stays as it is.

        >>> Redactor()("mail ann@example.org, card 4111 1111 1111 1111")
        'mail [EMAIL], card [CARD]'
        """
        text = self._whole("pem", _PEM, text)
        text = self._whole("jwt", _JWT, text)
        text = self._whole("key", _KNOWN_KEY, text)
        text = self._after("key", _BEARER, text)
        text = self._after("key", _NAMED_KEY, text)
        text = self._after("key", _SPACED_KEY, text)
        text = _PASSWORD.sub(lambda match: match[1] + match[2] + self._put("password"), text)
        if "@" in text:
            text = self._after("password", _URL_PASSWORD, text)
            text = self._whole("email", _EMAIL, text)
        if any(character.isdigit() for character in text):
            text = _IBAN.sub(self._iban, text)
            text = _DIGITS.sub(self._card, text)
            text = self._whole("phone", _PHONE, text, lambda found: _DATE.search(found) is None and _digits(found) >= 7)
            text = self._after("phone", _NAMED_PHONE, text, lambda found: _DATE.search(found) is None)
        return text

    def _put(self, kind: str) -> str:
        self.counts[kind] += 1
        return f"[{kind.upper()}]"

    def _whole(self, kind: str, pattern: re.Pattern[str], text: str, holds: Callable[[str], bool] = lambda _: True) -> str:
        return pattern.sub(lambda match: self._put(kind) if holds(match[0]) else match[0], text)

    def _after(self, kind: str, pattern: re.Pattern[str], text: str, holds: Callable[[str], bool] = lambda _: True) -> str:
        """Replace the second group of the pattern; the first is the word before it, which stays."""
        return pattern.sub(lambda match: match[1] + self._put(kind) if holds(match[2]) else match[0], text)

    def _iban(self, match: re.Match[str]) -> str:
        """The longest beginning that is an IBAN: what follows it in groups of letters is another word."""
        found = match[0]
        for end in range(len(found), 14, -1):
            number = re.sub(r"[ -]", "", found[:end]).upper()
            if 15 <= len(number) <= 34 and (end == len(found) or not found[end].isalnum()) and _is_iban(number):
                return self._put("iban") + found[end:]
        return found

    def _card(self, match: re.Match[str]) -> str:
        """A run of digits without the groups in it that together are a card's number."""
        parts = re.split(r"([ -])", match[0])
        kept, first = "", 0
        while first < len(parts):
            end = _card_end(parts, first)
            kept += parts[first] if end is None else self._put("card")
            first = first + 1 if end is None else end
            if first < len(parts):
                kept += parts[first]  # the space or hyphen between two groups
                first += 1
        return kept


def _card_end(parts: list[str], first: int) -> int | None:
    """Where the longest card's number ends that begins with that group. `parts`: groups of digits, and between them what parts them."""
    digits, found = 0, None
    for place in range(first, len(parts), 2):
        digits += len(parts[place])
        if digits > 19:
            break
        if digits >= 13 and _is_card("".join(parts[first : place + 1])):
            found = place + 1
    return found


def _is_card(text: str) -> bool:
    number = re.sub(r"[ -]", "", text)
    return number[0] in "23456" and luhn(number) and _DATE.search(text) is None


def luhn(number: str) -> bool:
    """Whether the last digit is the check digit of the others."""
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(number))]
    return sum(value - 9 * (value > 9) for value in doubled) % 10 == 0


def _is_iban(number: str) -> bool:
    return int("".join(str(int(character, 36)) for character in number[4:] + number[:4])) % 97 == 1


def _digits(text: str) -> int:
    return sum(character.isdigit() for character in text)
