"""The lookup of the streams that a query names."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from braid.algebra.nodes import Read
from braid.lang.bind.binder import Lookup
from braid.lang.bind.scopes import Bound
from braid.lang.bind.tables import Table
from braid.lang.bind.views import View
from braid.lang.parse import syntax
from braid.lang.parse.problems import Problem, alternatives

if TYPE_CHECKING:
    from braid.lang.catalog.catalog import Catalog

#: The stream or view of each name in a text.
Sources = dict[str, Read | View]


def lookup_in(
    catalog: Catalog, own: str | None, failed: Collection[str], sources: Sources
) -> Lookup:
    """A lookup in a catalog that collects the results in `sources`.

    `own` is the stream that the query makes, which it cannot read. `failed` are streams that are
    missing because of an error in another statement.
    """

    def lookup(ident: syntax.Ident) -> Bound | Table:
        view = catalog.views.get(ident.name)
        if view is not None:
            sources[ident.name] = view
            return view.bound
        found = catalog.source(ident.name)
        if found is not None:
            sources[ident.name] = found
            declared = catalog.streams.get(ident.name)
            if declared is None:
                return Bound(found, ident.name)
            about = (declared.time, declared.sequence, declared.documents, declared.json)
            return Bound(found, ident.name, {}, *about)
        if ident.name == own:
            hint = "a stream cannot be made from itself"
            message = f"this query reads what it makes: {own} -> {own}"
            raise Problem("E133", message, ident.at, hint)
        hint = alternatives("streams", ident.name, catalog.source_names())
        silent = ident.name in failed
        raise Problem("E105", f"there is no stream {ident.name!r}", ident.at, hint, silent=silent)

    return lookup
