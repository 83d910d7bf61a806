"""User-defined functions. Queries can call only functions that were registered from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import Any

import pyarrow as pa

from braid.algebra.types import canonical, type_named, type_names
from braid.algebra.user_functions import Function
from braid.errors import ConfigError
from braid.lang.parse.problems import alternatives

__all__ = ["Function", "Functions"]


class Functions:
    """The registered functions by name. Names are case-sensitive, like all identifiers."""

    def __init__(self) -> None:
        self._known: dict[str, Function] = {}

    def register(
        self,
        name: str,
        call: Callable[..., Any],
        arguments: Sequence[pa.DataType | str],
        returns: pa.DataType | str,
        *,
        vectorized: bool = False,
        cost: float = 1.0,
    ) -> Function:
        """Register `call` for queries. Types are Arrow types or names such as "DOUBLE"."""
        from braid.lang.bind.calls import is_builtin

        if not name.isidentifier():
            raise ConfigError("E156", f"{name!r} cannot be the name of a function")
        if is_builtin(name) or name in self._known:
            raise ConfigError("E155", f"there is a function {name!r} already")
        if vectorized and not arguments:
            hint = "leave out vectorized=True"
            raise ConfigError("E157", f"{name}: a vectorized function needs an argument", hint)
        if not (isfinite(cost) and cost > 0):
            raise ConfigError("E157", f"{name}: cost must be a positive number, not {cost}")
        types = tuple(map(_type, arguments))
        function = Function(name, call, types, _type(returns), vectorized, float(cost))
        self._known[name] = function
        return function

    def get(self, name: str) -> Function | None:
        return self._known.get(name)

    def __iter__(self) -> Iterator[Function]:
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    def copy(self) -> Functions:
        other = Functions()
        other._known = dict(self._known)
        return other


def _type(type_: pa.DataType | str) -> pa.DataType:
    if not isinstance(type_, str):
        return canonical(type_)
    known = type_named(type_)
    if known is None:
        hint = alternatives("types", type_, type_names())
        raise ConfigError("E121", f"there is no type {type_!r}", hint)
    return known
