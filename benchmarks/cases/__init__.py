"""One case a file; each has a `CASE`."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from benchmarks.harness import Case


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def find(name: str) -> Case:
    case = import_module(f"{__name__}.{name}").CASE
    assert isinstance(case, Case)
    assert case.name == name
    return case
