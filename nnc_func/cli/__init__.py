"""The command line ``python -m nnc_func``: what is installed, which models there are, and what a stack makes of one.

Each command is a module with two functions: `arguments` declares its arguments, `answer` returns what it found. The
answer is shown as text, or with ``--json`` as one JSON document. Errors go to standard error.

Exit codes: 0, done; 1, what was asked for failed, and the message says why; 2, the command line is wrong; 130,
interrupted.
"""

from __future__ import annotations

import argparse
import codecs
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from nnc_func.errors import NncError

DONE, FAILED, INTERRUPTED = 0, 1, 130


def parser() -> argparse.ArgumentParser:
    """The parser of all commands.

    Examples
    --------
    >>> parser().parse_args(["models", "--json"]).command
    'models'
    """
    import nnc_func
    from nnc_func.cli import bench, info, models, plan, rules, run, show

    top = argparse.ArgumentParser(
        prog="python -m nnc_func", description="Look into tensor graphs from the command line."
    )
    top.add_argument("--version", action="version", version=f"nnc_func {nnc_func.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (info, models, show, run, plan, rules, bench):
        said = (module.__doc__ or "").strip().splitlines()[0]
        command = commands.add_parser(module.__name__.rpartition(".")[2], help=said, description=said)
        command.add_argument("--json", action="store_true", help="print one JSON document instead of text")
        command.add_argument("--traceback", action="store_true", help="show where in the library an error was found")
        module.arguments(command)
        command.set_defaults(answer=module.answer)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out a command line, by default the process's own; returns the exit code.

    Examples
    --------
    >>> main(["show", "no-such-model"])
    1
    """
    for stream in (sys.stdout, sys.stderr):
        spell_out(stream)
    given = parser().parse_args(argv)
    try:
        found = given.answer(given)
        print(json.dumps(found.data, indent=2) if given.json else found.text, flush=True)
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except (NncError, OSError, MemoryError) as error:
        if given.traceback:
            raise
        _tell(error, given.json)
        return FAILED
    return DONE


# --- characters that an output lacks -----------------------------------------------------------------------

PLAIN = {"…": "...", "µ": "u", "–": "-", "—": "-", "×": "x", "→": "->", "≤": "<=", "≥": ">=", "≠": "!=", "²": "^2"}


def spell_out(stream: Any) -> None:
    """Have a text stream write what its encoding lacks in plain characters, or as an escape, instead of failing.

    Examples
    --------
    >>> import io
    >>> stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    >>> spell_out(stream)
    >>> print("3 µs…", file=stream, end="", flush=True)
    >>> stream.buffer.getvalue()
    b'3 us...'
    """
    codecs.register_error("nnc_func.plain", _plain)
    if hasattr(stream, "reconfigure"):  # what a caller has put in the place of a standard stream may be no such one
        stream.reconfigure(errors="nnc_func.plain")


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    escaped = (PLAIN.get(c) or c.encode("ascii", "backslashreplace").decode() for c in lacking)
    return "".join(escaped), error.end


def _tell(error: Exception, as_json: bool) -> None:
    said: Any = {"error": type(error).__name__, "message": str(error)}
    print(json.dumps(said) if as_json else f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
