"""Braid: very many standing queries over event streams, in one plan, as a Spark pipeline.

    import braid
    out = braid.run("SELECT ... FROM ... PUBLISH Jump", {"Stock": table}, time="ts")

What is heavy is imported when it is first used: `import braid` loads neither Spark nor the
compiler of the kernels.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from braid.errors import BraidError, CheckpointError, ConfigError, Notice, QueryError, QueryErrors

if TYPE_CHECKING:
    from braid.engine import Engine, Options, Results, run
    from braid.spark import Session

__version__ = "0.1.0.dev0"

_LAZY = {
    "Engine": "braid.engine",
    "Options": "braid.engine",
    "Results": "braid.engine",
    "Session": "braid.spark",
    "run": "braid.engine",
}

__all__ = [
    "BraidError",
    "CheckpointError",
    "ConfigError",
    "Engine",
    "Notice",
    "Options",
    "QueryError",
    "QueryErrors",
    "Results",
    "Session",
    "__version__",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'braid' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
