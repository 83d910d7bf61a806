"""The engine: runs a plan in process over ordered batches, with watermarks and snapshots."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from braid.engine.engine import Engine
    from braid.engine.options import Options
    from braid.engine.tables import Results, run

_LAZY = {"Engine": "engine", "Options": "options", "Results": "tables", "run": "tables"}

__all__ = ["Engine", "Options", "Results", "run"]


def __getattr__(name: str) -> Any:
    # Ingest tasks on Spark import parts of this package and need no kernels.
    if name not in _LAZY:
        raise AttributeError(f"module 'braid.engine' has no attribute {name!r}")
    return getattr(import_module(f"braid.engine.{_LAZY[name]}"), name)
