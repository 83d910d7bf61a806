"""The language: text -> syntax tree -> bound algebra. Errors point at the source.

tokens.py       text -> tokens, and where statements end
grammar.lark    the grammar; parser.py builds the syntax tree (syntax.py)
scopes.py       what names mean; expressions.py, calls.py, casts.py: scalar expressions
binder.py       streams; algebra/bounds.py: how long instances can live
words.py        words that are keywords only in windows, relations and views
constraints.py  constraints of streams, and what a query does with them; constraint_syntax.py
relations.py    windows and relations; tables.py: the inputs of FROM; grouping.py: GROUP BY
views.py        views, which are written into what reads them
catalog.py      what exists; compile.py: one query; load.py: a file of statements
outlines.py     a text without its constants; skeletons.py: queries of a known shape, not parsed
tracing.py      what was done with a constant; replay.py does it again; lifting.py: templates
prepared.py     FOR EACH; rows.py, conversion.py: rows of parameters; registry.py: its members
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
