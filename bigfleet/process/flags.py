"""Command-line flags of a process, taken from its options dataclass: one place says what can be set.

A field `metrics_addr: str` becomes `--metrics-addr`; the docstring below a field is its help; a field that is itself a
dataclass gives its own fields under its name (`--faults-refuse-configure`). A field of literals takes one of them, a
tuple takes several values, and `metadata={"short": "-o"}` adds a short name.
"""

import argparse
import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from bigfleet.process.commandline import Parser

T = TypeVar("T")


def parse_options(options: type[T], program: str, arguments: Sequence[str]) -> T:
    """Options from the command line; says what is wrong and exits with 2 when they make no sense."""
    parser = Parser(program, description=inspect.getdoc(options))
    _add_flags(parser, options, prefix="")
    given = vars(parser.parse_args(arguments))
    try:
        return _build(options, given, prefix="")
    except ValueError as error:
        parser.error(str(error))


def _short_names(options: type[Any]) -> dict[str, str]:
    return {field.name: field.metadata["short"] for field in dataclasses.fields(options) if "short" in field.metadata}


def _fields(options: type[Any], base: object | None) -> list[tuple[str, Any, Any]]:
    """(name, type, default) of each field; a `base` object of the same class gives the defaults where there is one."""
    kinds = typing.get_type_hints(options)
    return [
        (field.name, kinds[field.name], getattr(base, field.name) if base is not None else _default(field))
        for field in dataclasses.fields(options)
        if field.init
    ]


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _add_flags(parser: argparse.ArgumentParser, options: type[Any], prefix: str, base: object | None = None) -> None:
    helps, short_names = _field_help(options), _short_names(options)
    for field, kind, default in _fields(options, base):
        name = f"{prefix}{field}"
        required = default is dataclasses.MISSING
        if dataclasses.is_dataclass(kind):
            _add_flags(parser, typing.cast(type[Any], kind), f"{name}_", None if required else default)
            continue
        shown = "" if required or default in (None, "", ()) else f" (default: {default})"
        settings: dict[str, Any] = {"dest": name, "required": required, "default": argparse.SUPPRESS}
        settings["help"] = f"{helps.get(field, '')}{shown}".replace("%", "%%")
        names = [f"--{name.replace('_', '-')}", *([short_names[field]] if field in short_names else [])]
        plain, many = _plain_type(kind)
        if choices := _choices(kind):
            parser.add_argument(*names, choices=choices, **settings)
        elif plain is bool:
            parser.add_argument(*names, action=argparse.BooleanOptionalAction, **settings)
        elif many:
            parser.add_argument(
                *names, action="extend", nargs="+", type=plain, metavar=plain.__name__.upper(), **settings
            )
        else:
            parser.add_argument(*names, type=plain, metavar=plain.__name__.upper(), **settings)


def _choices(kind: Any) -> tuple[Any, ...]:
    """What a field of literals can be, None aside."""
    parts = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    return next((typing.get_args(part) for part in parts if typing.get_origin(part) is typing.Literal), ())


def _plain_type(kind: Any) -> tuple[type[Any], bool]:
    """The type of one value, and whether the flag may be repeated. `X | None` is X."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _plain_type(next(part for part in arguments if part is not type(None)))
    if origin in (tuple, list):
        return arguments[0], True
    return (kind if kind in (str, int, float, bool, Path) else str), False


def _build(options: type[T], given: dict[str, Any], prefix: str, base: object | None = None) -> T:
    values: dict[str, Any] = {}
    for field, kind, default in _fields(options, base):
        name = f"{prefix}{field}"
        if dataclasses.is_dataclass(kind):
            inner = None if default is dataclasses.MISSING else default
            values[field] = _build(typing.cast(type[Any], kind), given, f"{name}_", inner)
        elif name in given:
            values[field] = tuple(given[name]) if isinstance(given[name], list) else given[name]
        elif default is not dataclasses.MISSING:
            values[field] = default
    return options(**values)


def _field_help(options: type[Any]) -> dict[str, str]:
    """The docstrings below fields, by field name."""
    body = typing.cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(options))).body[0]).body
    helps: dict[str, str] = {}
    for node, following in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            helps[node.target.id] = " ".join(str(following.value.value).split())
    return helps
