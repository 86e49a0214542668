"""Connection strings, which may hold a password: kept out of messages, logs, keys and representations."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from prefkit.errors import DatabaseError

# All before the last @ is taken for user and password, also where a password holds signs that should have been written as %40 or %2F.
_PARTS = re.compile(r"^(?P<scheme>postgres(?:ql)?://)(?:[^?]*@)?(?P<place>[^/?]*)(?:/(?P<name>[^?]*))?", re.IGNORECASE)
_PASSWORD = re.compile(r"\b(?:ssl)?password\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]+)")
_KEY_VALUE = re.compile(r"^\s*\w+\s*=\s*\S")


class Dsn(str):
    """A libpq connection string (URI or key=value) that does not show itself: repr and format give `place` alone.

    It is text all the same: `whole` and `json.dumps` give all of it, for the worker's pipe and the driver, and nothing else.
    """

    __slots__ = ()

    @property
    def whole(self) -> str:
        return str.__str__(self)

    @property
    def place(self) -> str:
        """Host and database, without user, password or options."""
        found = _PARTS.match(self.whole)
        if found:
            return f"{found['place'] or 'local'}/{found['name'] or ''}"
        given = dict(re.findall(r"\b(host|hostaddr|port|dbname)\s*=\s*('[^']*'|\S+)", _PASSWORD.sub("", self.whole)))
        return f"{given.get('host', given.get('hostaddr', 'local'))}/{given.get('dbname', '')}".replace("'", "")

    def __repr__(self) -> str:
        return f"Dsn({self.place})"

    def __format__(self, spec: str) -> str:
        return format(self.place, spec)

    def __str__(self) -> str:
        return self.place


def is_dsn(text: str) -> bool:
    """Whether text looks like a connection string: a URI, or key=value."""
    return bool(_PARTS.match(text) or _KEY_VALUE.match(text))


def from_environment(name: str) -> Dsn:
    """The connection string in an environment variable. Raises DatabaseError, naming the variable, where there is none."""
    value = os.environ.get(name, "").strip()
    if not value:
        raise DatabaseError(f"the environment variable {name} is not set: put the PostgreSQL connection string (DSN) there")
    return Dsn(value)


def scrub(message: str, dsn: str) -> str:
    """A driver's message without the connection string or the password in it."""
    whole = str.__str__(dsn)
    secrets = {whole, *re.findall(r"://[^:@/]*:([^?]+)@", whole), *_PASSWORD.findall(whole)}
    secrets |= {unquote(secret) for secret in secrets}
    for secret in sorted(secrets, key=len, reverse=True):
        message = message.replace(secret.strip("'") or secret, "***")
    return message
