"""Where the streams that a query names come from."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from braid.algebra.nodes import Read
from braid.lang import syntax
from braid.lang.binder import Lookup
from braid.lang.problems import Problem, alternatives
from braid.lang.scopes import Bound

if TYPE_CHECKING:
    from braid.lang.catalog import Catalog


def lookup_in(
    catalog: Catalog, own: str | None, failed: Collection[str], sources: dict[str, Read]
) -> Lookup:
    """Finds streams of a catalog, and notes in `sources` which.

    `own` is what the query publishes; `failed` are streams whose absence is somebody else's fault.
    """

    def lookup(ident: syntax.Ident) -> Bound:
        found = catalog.source(ident.name)
        if found is not None:
            sources[ident.name] = found
            declared = catalog.streams.get(ident.name)
            return Bound(found, ident.name, {}, declared.time if declared else ())
        if ident.name == own:
            hint = "a stream cannot be made from itself"
            message = f"this query reads what it publishes: {own} -> {own}"
            raise Problem("E133", message, ident.at, hint)
        hint = alternatives("streams", ident.name, catalog.source_names())
        silent = ident.name in failed
        raise Problem("E105", f"there is no stream {ident.name!r}", ident.at, hint, silent=silent)

    return lookup
