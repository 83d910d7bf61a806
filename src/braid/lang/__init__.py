"""The language: text -> syntax tree -> bound algebra. Errors point at the source.

- `parse` turns text into a syntax tree: tokens, the grammar, errors, limits.
- `bind` turns a syntax tree into algebra: names, types, casts, relations, views, constraints.
- `templates` recognizes texts of a known shape and converts only their constants.
- `catalog` holds declared streams, views and queries, and loads files of statements.
"""

from __future__ import annotations

from braid.lang.bind.user_functions import Function, Functions
from braid.lang.catalog.catalog import Catalog
from braid.lang.catalog.compile import Registered, compile_query
from braid.lang.catalog.load import Loaded, load
from braid.lang.catalog.prepared import Prepared, Refused, prepare
from braid.lang.catalog.streams import stream_from_schema
from braid.lang.parse.durations import parse_duration

__all__ = [
    "Catalog",
    "Function",
    "Functions",
    "Loaded",
    "Prepared",
    "Refused",
    "Registered",
    "compile_query",
    "load",
    "parse_duration",
    "prepare",
    "stream_from_schema",
]
