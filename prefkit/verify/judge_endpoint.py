"""A judge behind an OpenAI-compatible endpoint (`POST …/chat/completions`). Standard library only.

| what                         | rule                                                                                      |
|------------------------------|-------------------------------------------------------------------------------------------|
| key                          | from an environment variable whose name ends in _API_KEY; in no message, log, cache or URL |
| where it goes                | over https, or to this machine; redirects are not followed                                |
| 408, 409, 425, 429, 5xx      | tried again with growing pauses, or after the server's Retry-After                        |
| time-out, no connection, an  | tried again with growing pauses                                                           |
| unreadable reply             |                                                                                           |
| other 4xx                    | not tried again; where it refused `response_format`, asked without that from then on      |
| time                         | `timeout_s` for one request from its beginning to its last byte                           |
| size                         | a reply of at most 1 MB                                                                   |

After the last try: ScorerUnavailable, which becomes INFRA, never a mark of 0.
"""

from __future__ import annotations

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
_KEY_NAME = re.compile(r"[A-Z][A-Z0-9_]*_API_KEY")
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_LONGEST_PAUSE_S = 60.0
_Read = TypeVar("_Read")


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
        """An endpoint as lines and recipes write it. Raises ValueError that says what was expected."""
        if not isinstance(value, dict) or not set(value) <= {"url", "model", "key_env", "timeout_s", "attempts", "max_tokens"}:
            raise ValueError('"endpoint" is an object with "url", "model" and, where it needs one, "key_env"')
        url, model, key_env = value.get("url"), value.get("model"), value.get("key_env", "")
        if not isinstance(url, str) or not isinstance(model, str) or not model.strip():
            raise ValueError('"endpoint" needs a "url" and a "model"')
        if not isinstance(key_env, str) or (key_env and not _KEY_NAME.fullmatch(key_env)):
            raise ValueError('"key_env" names an environment variable that ends in _API_KEY; the key itself stands in no file')
        _check_url(url, bool(key_env))
        timeout, attempts, tokens = value.get("timeout_s", 60.0), value.get("attempts", 4), value.get("max_tokens", 1024)
        for name, number, most in (("timeout_s", timeout, 3600), ("attempts", attempts, 20), ("max_tokens", tokens, 100_000)):
            if isinstance(number, bool) or not isinstance(number, int if name != "timeout_s" else (int, float)) or not 0 < number <= most:
                raise ValueError(f'"{name}" is a number above 0 and up to {most}')
        return cls(url, model, key_env, float(timeout), attempts, tokens)


@dataclass(slots=True)
class EndpointScorer:
    """A Scorer (judge_scorer.py) that asks an endpoint. pause: how waiting is done."""

    endpoint: Endpoint
    pause: Callable[[float], None] = time.sleep
    _structured: bool = field(default=True, init=False)

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
        """Ask until a reply can be read. Raises ScorerUnavailable after the last try."""
        key = self._key()
        problem, tries = "", 0
        while tries < self.endpoint.attempts:
            tries += 1
            wait = min(_LONGEST_PAUSE_S, 2.0 ** (tries - 1)) * random.uniform(0.5, 1.0)
            try:
                return read(_content(self._post(self._body(question), key)))
            except urllib.error.HTTPError as error:
                with error:
                    told = error.read(2000).decode("utf-8", "replace")
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
                problem = "a reply that cannot be read"
            if tries < self.endpoint.attempts:
                self.pause(wait)
        raise ScorerUnavailable(f"the judge gave no rating: {problem} ({tries} {'try' if tries == 1 else 'tries'})")

    def _key(self) -> str:
        if not self.endpoint.key_env:
            return ""
        key = os.environ.get(self.endpoint.key_env, "").strip()
        if not key:
            raise ScorerUnavailable(f"the environment variable {self.endpoint.key_env} is not set: it holds the judge's key")
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
