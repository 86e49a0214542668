"""The command line: which commands there are, and how what goes wrong is said. A command's file is imported only when it is called."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence

from prefkit.errors import PrefkitError

# Command -> what it does, in the order of the help. Each has a file of its name in prefkit/commands/.
COMMANDS = {
    "recipe": "run a loop from its task to its report",
    "recipes": "the loops there are, and which leads to which",
    "doctor": "what works on this machine, what is missing, and the mend",
    "ready": "has this task a verifier, and this model anything to learn?",
    "augment": "more training questions for your own schema, executed and marked",
    "verify": "one verdict for each line of a file of answers",
    "ask": "base and trained answer to a question, side by side, with their rows",
    "audit": "execute a run's verdicts again and compute every figure of its report again",
    "evaluate": "measure a run, an adapter or a model on every held-out question",
    "ingest": "production logs and user feedback into training rows",
    "report": "write a run's report again, and open it",
    "export": "a run's adapter or merged model, with its card",
    "datasets": "build or check the data of a task, or derive a second data instance",
}
EXAMPLE = "prefkit recipe sql-gen"
STOPPED, BROKEN_PIPE = 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0; 1 where a check found something; 2 for a mistake, after its message; 130 after Ctrl-C."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows its number; it does not end the command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(given)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader went away, as in `prefkit verify … | head`. What is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    except PrefkitError as error:
        return _complain(str(error))
    except OSError as error:
        if error.filename is None or error.strerror is None:
            raise
        return _complain(f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return STOPPED


def _dispatch(given: list[str]) -> int:
    if not given or given[0] in ("-h", "--help", "help"):
        print(_help())
        return 0 if given else 2
    name, rest = given[0], given[1:]
    if name == "--version":
        from prefkit import __version__

        print(f"prefkit {__version__}")
        return 0
    if name not in COMMANDS:
        from prefkit.names import suggestion

        return _complain(f'there is no command "{name}"; {suggestion(name, COMMANDS)}')
    from importlib import import_module

    from prefkit.commands.arguments import Parser

    command = import_module(f"prefkit.commands.{name}")
    parser = Parser(name, command.ABOUT, command.EXAMPLE)
    command.arguments(parser)
    options = parser.parse_args(rest)
    options.given = given
    return command.run(options)


def _help() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(
        [
            "prefkit turns a task whose answers can be checked by running them into a better model.",
            "",
            "usage: prefkit COMMAND …",
            "",
            *(f"  {name:{width}}  {what}" for name, what in COMMANDS.items()),
            "",
            f"example: {EXAMPLE}",
            "`prefkit COMMAND --help` says what a command takes, `prefkit --version` which version this is.",
        ]
    )


def _complain(message: str) -> int:
    from prefkit.report.text import visible

    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    print(f"prefkit: {visible(message)}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
