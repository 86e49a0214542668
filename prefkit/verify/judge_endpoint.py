"""A judge behind an OpenAI-compatible endpoint (`POST …/chat/completions`). Standard library only.

| what                         | rule                                                                                      |
|------------------------------|-------------------------------------------------------------------------------------------|
| whom                         | the line's "endpoint", else PREFKIT_JUDGE_URL and PREFKIT_JUDGE_MODEL                     |
| key                          | from PREFKIT_JUDGE_API_KEY, or a PREFKIT_JUDGE_…_API_KEY that the line names: no file of  |
|                              | lines can send other keys away; it stands in no message, log, verdict, cache or URL      |
| where it goes                | over https, or to this machine; redirects are not followed                                |
| 408, 409, 425, 429, 5xx      | tried again with growing pauses, or after the server's Retry-After                        |
| time-out, no connection, an  | tried again with growing pauses                                                           |
| unreadable reply             |                                                                                           |
| other 4xx                    | not tried again; where it refused `response_format`, asked without that from then on      |
| time                         | `timeout_s` for one request from its beginning to its last byte                           |
| size                         | a reply of at most 1 MB                                                                   |
| 8 questions in a row without | those of the next minute are not asked: a file of thousands ends soon where the endpoint  |
| a reply                      | is gone                                                                                   |

After the last try: ScorerUnavailable, which becomes INFRA, never a mark of 0.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from prefkit.verify import judge_prompt
from prefkit.verify.judge_scorer import Choice, Question, Rating, ScorerUnavailable

_MAX_BYTES = 1_000_000
_AGAIN = frozenset({408, 409, 425, 429})
URL, MODEL, KEY = "PREFKIT_JUDGE_URL", "PREFKIT_JUDGE_MODEL", "PREFKIT_JUDGE_API_KEY"
"""Environment variables: the endpoint of lines that name none, and its key."""
OFF = f'the judge is off: give the line an "endpoint" with "url" and "model", or set {URL} and {MODEL} (and {KEY} where it needs a key)'
_KEY_NAME = re.compile(r"PREFKIT_JUDGE_(?:[A-Z0-9_]+_)?API_KEY")
_KEY = re.compile(r"[!-~]+")
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_LONGEST_PAUSE_S = 60.0
_MOST_IN_VAIN, _REST_S = 8, 60.0
_UNREADABLE = "a reply that cannot be read"
_Read = TypeVar("_Read")


class _NoReply(ScorerUnavailable):
    """The endpoint is not there, or refuses."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """url: up to, or with, /chat/completions. key_env: name of the environment variable that holds the key, "" for none."""

    url: str
    model: str
    key_env: str = ""
    timeout_s: float = 60.0
    attempts: int = 4
    max_tokens: int = 1024

    @classmethod
    def read(cls, value: Any) -> Endpoint:
        """An endpoint as lines write it. Raises ValueError that says what was expected."""
        if not isinstance(value, dict) or not set(value) <= {"url", "model", "key_env", "attempts", "max_tokens"}:
            raise ValueError(
                '"endpoint" is an object with "url", "model" and, where wanted, "key_env", "attempts" and "max_tokens"; a time limit is '
                'the line\'s "timeout"'
            )
        url, model, key_env = value.get("url"), value.get("model"), value.get("key_env", "")
        if not isinstance(url, str) or not isinstance(model, str) or not model.strip():
            raise ValueError('"endpoint" needs a "url" and a "model"')
        if not isinstance(key_env, str) or (key_env and not _KEY_NAME.fullmatch(key_env)):
            raise ValueError(f'"key_env" names an environment variable, {KEY} or PREFKIT_JUDGE_…_API_KEY; the key itself stands in no file')
        _check_url(url, bool(key_env))
        attempts, tokens = value.get("attempts", 4), value.get("max_tokens", 1024)
        for name, number, most in (("attempts", attempts, 20), ("max_tokens", tokens, 100_000)):
            if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= most:
                raise ValueError(f'"{name}" is a whole number from 1 to {most}')
        return cls(url, model, key_env, attempts=attempts, max_tokens=tokens)

    @classmethod
    def from_environment(cls) -> Endpoint | None:
        """The endpoint that the environment names; None where it names none. Raises ValueError where it names half of one, or no URL."""
        url, model = (os.environ.get(name, "").strip() for name in (URL, MODEL))
        if not url and not model:
            return None
        if not url or not model:
            raise ValueError(f"{URL if url else MODEL} is set and {MODEL if url else URL} is not: the judge needs both")
        key_env = KEY if os.environ.get(KEY, "").strip() else ""
        try:
            _check_url(url, bool(key_env))
        except ValueError as error:
            raise ValueError(f"{URL}: {error}") from error
        return cls(url, model, key_env)


@dataclass(slots=True)
class EndpointScorer:
    """A Scorer (judge_scorer.py) that asks an endpoint. pause: how waiting is done."""

    endpoint: Endpoint
    pause: Callable[[float], None] = time.sleep
    _structured: bool = field(default=True, init=False)
    _in_vain: int = field(default=0, init=False)
    _rests_until: float = field(default=0.0, init=False)

    @property
    def identity(self) -> Mapping[str, str]:
        return {"url": self.endpoint.url, "model": self.endpoint.model, "prompts": judge_prompt.VERSION}

    @property
    def sees_order(self) -> bool:
        return True

    def rate(self, question: Question) -> Rating:
        return self._ask(question, lambda text: judge_prompt.read_rating(text, question))

    def prefer(self, question: Question) -> Choice:
        return self._ask(question, judge_prompt.read_choice)

    def _ask(self, question: Question, read: Callable[[str], _Read]) -> _Read:
        """Ask, unless it has been in vain for so long that the endpoint must be gone. Raises ScorerUnavailable."""
        key = self._key()
        if time.monotonic() < self._rests_until:
            raise ScorerUnavailable(f"the judge was not asked: {_MOST_IN_VAIN} questions in a row had no reply")
        try:
            reply = self._ask_again(question, read, key)
        except _NoReply:
            self._in_vain += 1
            if self._in_vain >= _MOST_IN_VAIN:
                self._in_vain, self._rests_until = 0, time.monotonic() + _REST_S
            raise
        self._in_vain = 0
        return reply

    def _ask_again(self, question: Question, read: Callable[[str], _Read], key: str) -> _Read:
        """Ask until a reply can be read. Raises ScorerUnavailable after the last try; _NoReply where there was none to read."""
        problem, tries = "", 0
        while tries < self.endpoint.attempts:
            tries += 1
            wait = min(_LONGEST_PAUSE_S, 2.0 ** (tries - 1)) * random.uniform(0.5, 1.0)
            try:
                return read(_content(self._post(self._body(question), key)))
            except urllib.error.HTTPError as error:
                told = _told(error)
                if self._structured and error.code in (400, 422) and "response_format" in told:
                    self._structured, tries = False, tries - 1
                    continue
                problem = f"status {error.code}"
                if error.code not in _AGAIN and error.code < 500:
                    break
                wait = _retry_after(error.headers.get("Retry-After")) or wait
            except (OSError, http.client.HTTPException) as error:  # no connection, time-out, broken off
                problem = "time-out" if isinstance(error, TimeoutError) or "timed out" in str(error) else "no connection"
            except (ValueError, RecursionError):
                problem = _UNREADABLE
            if tries < self.endpoint.attempts:
                self.pause(wait)
        error = ScorerUnavailable if problem == _UNREADABLE else _NoReply
        raise error(f"the judge gave no rating: {problem} ({tries} {'try' if tries == 1 else 'tries'})")

    def _key(self) -> str:
        if not self.endpoint.key_env:
            return ""
        key = os.environ.get(self.endpoint.key_env, "").strip()
        if not key:
            raise ScorerUnavailable(f"the environment variable {self.endpoint.key_env} is not set: it holds the judge's key")
        if not _KEY.fullmatch(key):
            raise ScorerUnavailable(f"the environment variable {self.endpoint.key_env} holds no key: it has blanks or is not ASCII")
        return key

    def _body(self, question: Question) -> bytes:
        body: dict[str, Any] = {"model": self.endpoint.model, "messages": judge_prompt.messages(question), "temperature": 0}
        body["max_tokens"] = self.endpoint.max_tokens
        if self._structured:
            schema = {"name": "verdict", "strict": True, "schema": judge_prompt.reply_schema(question)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return json.dumps(body).encode()

    def _post(self, body: bytes, key: str) -> bytes:
        url = self.endpoint.url.rstrip("/")
        url = url if url.endswith("/chat/completions") else url + "/chat/completions"
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "prefkit"}
        request = urllib.request.Request(url, data=body, headers=headers)
        if key:
            request.add_unredirected_header("Authorization", f"Bearer {key}")
        deadline = time.monotonic() + self.endpoint.timeout_s
        chunks, had = [], 0
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=self.endpoint.timeout_s) as reply:
            while chunk := reply.read1(65536):
                chunks.append(chunk)
                had += len(chunk)
                if had > _MAX_BYTES:
                    raise ValueError("a reply of more than 1 MB")
                if time.monotonic() > deadline:
                    raise TimeoutError("timed out")
        return b"".join(chunks)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like any other: the key goes where it was meant to go, or nowhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _check_url(url: str, has_key: bool) -> None:
    try:
        parts = urllib.parse.urlsplit(url)
        host, user = parts.hostname, parts.username or parts.password
    except ValueError:
        host, user, parts = None, None, None
    if parts is None or parts.scheme not in ("http", "https") or not host:
        raise ValueError('the "url" of an endpoint begins with https:// or http://')
    if user or parts.query or parts.fragment:
        raise ValueError('the "url" of an endpoint holds no user, password, query or fragment: a key comes from "key_env"')
    if has_key and parts.scheme == "http" and host not in _LOCAL:
        raise ValueError("a key is sent over https alone, or to this machine")


def _told(error: urllib.error.HTTPError) -> str:
    """The beginning of what stands in a reply that is an error; never shown, for it may repeat the key."""
    with error, contextlib.suppress(OSError, http.client.HTTPException):
        return error.read(2000).decode("utf-8", "replace")
    return ""


def _content(raw: bytes) -> str:
    """The text of the reply's message. Raises ValueError."""
    reply = json.loads(raw)
    try:
        text = reply["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError("no message in the reply") from error
    if not isinstance(text, str):
        raise ValueError("the message is no text")
    return text


def _retry_after(value: str | None) -> float | None:
    """Seconds that the server asks to wait for, within reason; None for a date or nothing."""
    return min(_LONGEST_PAUSE_S, float(value)) if value and re.fullmatch(r"\d{1,6}(?:\.\d{1,6})?", value.strip()) else None
