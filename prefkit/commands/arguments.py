"""The arguments of a command: parsed by argparse, with mistakes said as messages."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """The parser of one command: a sentence and an example in its help, the nearest options where one is not known."""

    def __init__(self, command: str, about: str, example: str) -> None:
        from textwrap import fill

        super().__init__(
            prog=f"prefkit {command}",
            description=fill(about, 79),
            epilog=f"example: {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        """The options; SystemExit(2) after a message for what cannot be read."""
        options, rest = self.parse_known_args(args, namespace)
        if rest:
            from prefkit.names import suggestion

            known = [name for name in self._option_string_actions if name.startswith("--")]
            unknown = rest[0].partition("=")[0]
            self.error(
                f"unknown option {unknown}; {suggestion(unknown, known)}"
                if unknown.startswith("-")
                else f"{rest[0]!r} is one argument too many"
            )
        return options

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where the help is. Exit code 2."""
        from prefkit.report.text import visible

        self.exit(2, f"{self.prog}: {visible(message.rstrip('.'))}. `{self.prog} --help` says what it takes.\n")


def whole(least: int) -> Callable[[str], int]:
    """A whole number of at least `least`, as the `type` of an argument."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}")
        return value

    return read


def up_to(most: int, what: str = "number") -> Callable[[str], float]:
    """A number above 0 and up to `most`, as the `type` of an argument; `what` is its name in the message."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no {what} above 0 and up to {most}")
        return value

    return read


seconds = up_to(600, "number of seconds")
share = up_to(1)


def recipe_options(parser: Parser) -> None:
    """The options that choose and change a recipe."""
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="key=value", help="change a setting, such as limits.test=200"
    )
    parser.add_argument("--profile", metavar="P", help="cpu, gpu or smoke (every stage once, in a few minutes)")
