"""What is wrong with a file, where, and the nearest right word: one line per problem, as compilers print them."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""Where a value stands below the document: map keys in YAML spelling, list indexes from 0."""

_MOST_SHOWN_CHARACTERS = 60
_MOST_SHOWN_PROBLEMS = 100
_PLAIN_KEY = re.compile(r"[\w-]+")


@dataclass(frozen=True)
class Fault:
    """What is wrong at one place of a document. Lines and columns count from 1."""

    line: int
    column: int
    path: Path
    what: str

    def in_file(self, file: str) -> str:
        field = spelled(self.path)
        return f"{file}:{self.line}:{self.column}: {field + ': ' if field else ''}{self.what}"


def lines_of(file: str, faults: Sequence[Fault]) -> list[str]:
    """The faults of one file by line; a file that is wrong everywhere is cut short."""
    ordered = sorted(faults, key=lambda fault: (fault.line, fault.column, spelled(fault.path), fault.what))
    lines = list(dict.fromkeys(fault.in_file(file) for fault in ordered))
    left = len(lines) - _MOST_SHOWN_PROBLEMS
    return [*lines[:_MOST_SHOWN_PROBLEMS], f"{file}: and {left} more"] if left > 0 else lines


def spelled(path: Path) -> str:
    """`loadProfile.bursts[1].atSeconds`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{shown(part)}" if text else shown(part)
        else:
            text += f'["{shown(part)}"]'
    return text


def shown(text: str) -> str:
    """A user's text fit for one line of a terminal: short, and without characters that would act on it."""
    safe = printable(text[:200])
    return safe if len(safe) <= _MOST_SHOWN_CHARACTERS else safe[: _MOST_SHOWN_CHARACTERS - 1] + "…"


def printable(text: str) -> str:
    """Line breaks, escape codes and bytes that are no text, made visible."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def nearest(word: str, choices: Iterable[str]) -> str:
    """The choice that a typo may have meant, or nothing. Case, dashes and underscores do not count."""
    known = list(choices)
    by_letters = {_letters(choice): choice for choice in reversed(known)}
    close = difflib.get_close_matches(_letters(word[:200]), list(by_letters), n=1, cutoff=0.65)
    return by_letters[close[0]] if close else ""


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing."""
    near = nearest(word, choices)
    return f"; did you mean {shown(near)}?" if near and near != word else ""


def either(words: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else "".join(words)


def _letters(word: str) -> str:
    return word.casefold().replace("_", "").replace("-", "")
