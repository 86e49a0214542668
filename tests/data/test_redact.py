"""What is taken out of a log's texts, and what stays."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.data.redact import KINDS, Redactor, luhn

HEX, WORD, BASE64 = "0123456789abcdef", string.ascii_letters + string.digits, string.ascii_letters + string.digits + "+/"


def text(alphabet: str, least: int, most: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=least, max_size=most)


def with_check_digit(digits: str) -> str:
    return next(digits + str(last) for last in range(10) if luhn(digits + str(last)))


def iban(country: str, account: str) -> str:
    number = int("".join(str(int(character, 36)) for character in account + country + "00"))
    return f"{country}{98 - number % 97:02d}{account}"


def grouped(number: str) -> str:
    return " ".join(number[start : start + 4] for start in range(0, len(number), 4))


CARDS = st.builds(lambda first, rest: with_check_digit(first + rest), st.sampled_from("345"), text(string.digits, 14, 14))
IBANS = st.builds(iban, st.sampled_from(["DE", "FR", "GB", "NL"]), text(string.digits + string.ascii_uppercase, 14, 22))
EMAILS = st.builds(
    "{}@{}.{}".format, text(WORD + "._%+-", 1, 20), text(WORD + "-", 1, 20), st.sampled_from(["com", "org", "co.uk", "museum", "de"])
)
SECRETS: dict[str, st.SearchStrategy[tuple[str, str]]] = {
    # (what stands before it, the secret)
    "email": EMAILS.map(lambda secret: ("", secret)),
    "card": (CARDS | CARDS.map(grouped) | CARDS.map(lambda number: grouped(number).replace(" ", "-"))).map(lambda secret: ("", secret)),
    "iban": (IBANS | IBANS.map(grouped) | IBANS.map(str.lower)).map(lambda secret: ("", secret)),
    "key": st.one_of(
        text(WORD, 20, 48).map(lambda end: ("", f"sk-{end}")),
        text(string.ascii_uppercase + string.digits, 16, 16).map(lambda end: ("", f"AKIA{end}")),
        text(WORD, 36, 36).map(lambda end: ("", f"ghp_{end}")),
        st.tuples(st.sampled_from(["token: ", "api_key=", 'secret="', "Authorization: Bearer ", "the key is "]), text(HEX, 24, 64)),
        st.tuples(st.sampled_from(["access_token=", '"client_secret": "', "API-KEY: "]), text(BASE64, 20, 60)),
    ),
    "jwt": st.tuples(text(WORD, 8, 20), text(WORD, 8, 20), text(WORD, 8, 20)).map(lambda parts: ("", "eyJ" + ".".join(parts))),
    "pem": text(BASE64, 20, 80).map(lambda body: ("", f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----")),
    "password": st.tuples(st.sampled_from(["password: ", "pwd=", 'Password="']), text(WORD + "!#$%&*", 6, 20)),
    "phone": st.one_of(
        text(string.digits, 9, 11).map(lambda digits: ("", f"+{digits[:2]} {digits[2:5]} {digits[5:]}")),
        text(string.digits, 7, 7).map(lambda digits: ("call ", f"0{digits[:3]} {digits}")),
        text(string.digits, 10, 10).map(lambda digits: ("", f"{digits[:3]}-{digits[3:6]}-{digits[6:]}")),
    ),
}


def test_there_is_a_strategy_for_every_kind() -> None:
    assert set(SECRETS) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_no_secret_is_left(kind: str, data: st.DataObject) -> None:
    before, secret = data.draw(SECRETS[kind])
    around = st.sampled_from([("Who is ", "?"), ("", ""), ("x\n", "\ny"), ("SELECT '", "'"), ("(", ")"), ("Mail ", ", please")])
    left, right = data.draw(around)
    redact = Redactor()
    kept = redact(f"{left}{before}{secret}{right}")
    assert secret not in kept
    assert redact.counts.total() >= 1
    again = Redactor()
    assert again(kept) == kept and not again.counts, "what is redacted stays as it is"


@given(st.text(max_size=300))
def test_any_text_is_taken(text: str) -> None:
    Redactor()(text)


@pytest.mark.parametrize(
    "text",
    [
        "How many orders were placed between 2024-01-01 and 2024-12-31?",
        "SELECT name FROM people WHERE id = 4111111111111112 AND age > 40",
        "SELECT SUM(price) FROM orders WHERE total BETWEEN 1000 AND 2000.50",
        "Which key responsibilities does a manager have? What is the primary key?",
        "The password is wrong",
        "Who joined on 2023-05-06 2024-01-01 at 12:30?",
        "2, 3, 5, 7, 11, 13, 17, 19, 23, 29",
        "SELECT a.token FROM a JOIN b ON a.token = b.token",
        "customers @ home",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert Redactor()(text) == text


def test_finds_are_replaced_by_their_kind_and_counted() -> None:
    redact = Redactor()
    assert redact("ann@example.org and bob@example.org paid with 4111 1111 1111 1111 on 2024-01-02") == (
        "[EMAIL] and [EMAIL] paid with [CARD] on 2024-01-02"
    )
    assert redact("postgres://admin:hunter22@db.example.org/x") == "postgres://admin:[PASSWORD]@db.example.org/x"
    assert redact.counts == {"email": 2, "card": 1, "password": 1}


def test_two_numbers_in_one_run_of_digits_are_both_found() -> None:
    assert Redactor()("4111 1111 1111 1111 5555 5555 5555 4444 20") == "[CARD] [CARD] 20"
