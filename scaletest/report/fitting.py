"""Lines that fit a screen: what is too long goes on below itself, and a command stays one that can be pasted."""

import re
import shutil
import textwrap
from collections.abc import Iterable

# No screen of ours is wider, however wide the terminal is.
SCREEN_COLUMNS = 100
_FEWEST_COLUMNS = 60
# Where the text of `title   text` begins at most; what begins later is a table, which goes on below its own start.
_LARGEST_HANG = 24
_TITLED = re.compile(r"\s*\S.*?\s{2,}(?=\S)")
# What a shell takes for one piece: it must not be broken inside of quotes.
_SHELL_PIECE = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")
_COMMENT = "  # "


def screen_columns() -> int:
    """The columns that a line may take: the terminal's, but not more than 100; in a pipe 100."""
    return max(_FEWEST_COLUMNS, min(SCREEN_COLUMNS, shutil.get_terminal_size((SCREEN_COLUMNS, 24)).columns))


def fitted(lines: Iterable[str]) -> list[str]:
    """Lines of words; one that is too long goes on below the start of its text."""
    columns = screen_columns()
    return [piece for text in lines for line in text.split("\n") for piece in _fit(line, columns)]


def _fit(line: str, columns: int) -> list[str]:
    if len(line) <= columns:
        return [line]
    titled = _TITLED.match(line)
    hang = len(titled[0]) if titled else 0
    if not 0 < hang <= _LARGEST_HANG:
        hang = len(line) - len(line.lstrip()) + 2
    return textwrap.wrap(line, columns, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False)


def pasteable(title: str, command: str) -> list[str]:
    """A shell's command behind a title; one that is too long is continued by backslashes, its comment comes last."""
    columns, hang = screen_columns(), " " * len(title)
    words, comment, said = command.partition(_COMMENT)
    pieces = _SHELL_PIECE.findall(words)
    lines = [f"{title}{pieces[0]}"]
    for piece in pieces[1:]:
        if len(lines[-1]) + 1 + len(piece) <= columns - 2:  # room for the backslash
            lines[-1] += f" {piece}"
        else:
            lines[-1] += " \\"
            lines.append(f"{hang}{piece}")
    if comment:
        note = f"# {said.strip()}"
        if len(lines[-1]) + 2 + len(note) <= columns:
            lines[-1] += f"  {note}"
        else:
            lines.append(f"{hang}{note}")
    return lines
