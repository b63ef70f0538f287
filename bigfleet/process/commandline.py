"""What all command lines do alike: refusals of two lines, a version, a sentence about output that cannot be written."""

import argparse
import errno
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from bigfleet.errors import ExitStatus

_DISTRIBUTION = "bigfleet-scaletest"
_OF_A_STREAM = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF})


class Parser(argparse.ArgumentParser):
    """Says what is wrong and where to read on, instead of the whole usage; takes no flag that is only begun."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **({"allow_abbrev": False} | settings))

    def error(self, message: str) -> NoReturn:
        refuse(self.prog, message)

    def print_help(self, file: Any = None) -> None:
        """argparse's own keeps errors of the output to itself."""
        (file or sys.stdout).write(self.format_help())

    def tell_version(self) -> None:
        """Take --version."""
        self.add_argument("--version", action=_Version, nargs=0, help="show it and exit")


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        show_version(parser.prog)


def refuse(program: str, message: str, known: Iterable[str] = (), given: str = "") -> NoReturn:
    """End with 2; where what was `given` resembles something `known`, ask whether that was meant."""
    import difflib

    close = difflib.get_close_matches(given, list(known), 1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    sys.stderr.write(f"{program}: {message}\nhint: {meant}`{program} --help` shows what there is\n")
    sys.exit(ExitStatus.WRONG_USE)


def show_version(program: str) -> NoReturn:
    from importlib import metadata

    sys.stdout.write(f"{program} {metadata.version(_DISTRIBUTION)}\n")
    sys.exit(0)


def end(program: str, work: Callable[[], int | None]) -> NoReturn:
    """End this process with the code that `work` answers or exits with, once all that it wrote is out."""
    if sys.stdout is None:  # it was closed before we began, and the next file that is opened would get its number
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    code: int | str | None = None
    try:
        try:
            code = work()
        except SystemExit as ended:
            code = ended.code
        sys.stdout.flush()
    except OSError as error:
        if not is_of_output(error):
            raise
        lose_output()
        if error.errno != errno.EPIPE:
            sys.stderr.write(f"{program}: the output cannot be written: {error.strerror}\n")
        # What went wrong before says more.
        code = code or (ExitStatus.READER_LEFT if error.errno == errno.EPIPE else ExitStatus.WRONG_USE)
    sys.exit(code)


def lose_output() -> None:
    """Let what is still to be written, and what is left in the buffer when Python ends, go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_of_output(error: OSError) -> bool:
    """Whether stdout would not take what was written: a file's own errors name the file."""
    return error.filename is None and error.errno in _OF_A_STREAM
