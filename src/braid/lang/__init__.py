"""The language: text -> syntax tree -> bound algebra. Errors point at the source.

tokens.py       text -> tokens, and where statements end
grammar.lark    the grammar; parser.py builds the syntax tree (syntax.py)
scopes.py       what names mean; expressions.py, calls.py, casts.py: scalar expressions
binder.py       streams; algebra/bounds.py: how long instances can live
catalog.py      what exists; compile.py: one query; load.py: a file of statements
"""

from __future__ import annotations

from braid.lang.catalog import Catalog
from braid.lang.compile import Registered, compile_query
from braid.lang.durations import parse_duration
from braid.lang.functions import Function, Functions
from braid.lang.load import Loaded, load
from braid.lang.streams import stream_from_schema

__all__ = [
    "Catalog",
    "Function",
    "Functions",
    "Loaded",
    "Registered",
    "compile_query",
    "load",
    "parse_duration",
    "stream_from_schema",
]
