"""What is kept of documents besides their witnesses: as much as some query shows of earlier ones.

The text of a document is needed where results show elements of it, its id where they name it. If no
query does, neither outlives the batch: what is left of a document are the places of its values,
and each distinct value once.
"""

from __future__ import annotations

import numpy as np

from braid.operators.core.nodes import grown
from braid.operators.core.values import Strings, Words
from braid.operators.documents.spec import (
    DocumentsRecipe,
    earlier_blocks,
    is_one_of_several,
    keeps_documents,
)
from braid.operators.documents.store import ID, SOURCE, TEXT

_TEXTS, _IDS, _SHOWN = range(3)


class DocumentUpkeep:
    """For each query the inputs whose texts and ids it needs later on, and whose ids at all (bits)."""

    def __init__(self, strings: Strings) -> None:
        #: Stands for a text or an id that nobody asks for.
        self.nothing = strings.pin("")
        self._needs = np.zeros((8, 3), np.int64)
        self._all = np.zeros(3, np.int64)

    def need(self, recipe: DocumentsRecipe, nodes: Words) -> None:
        self._needs = grown(self._needs, int(nodes.max()) + 1)
        if is_one_of_several(recipe):
            self._needs[nodes] = _bits(set(recipe.sources))
            self._all |= self._needs[nodes[0]]
            return
        query = recipe.query
        named = {
            source
            for number, source in enumerate(recipe.sources)
            if query.document(number) in recipe.wanted
        }
        earlier = {recipe.sources[number] for number in earlier_blocks(query)}
        texts = earlier if keeps_documents(recipe) else set()
        self._needs[nodes] = _bits(texts), _bits(named & earlier), _bits(named)
        self._all |= self._needs[nodes[0]]

    def release(self, nodes: Words) -> None:
        self._needs[nodes[nodes < len(self._needs)]] = 0
        self._all = np.bitwise_or.reduce(self._needs, axis=0)

    def shows_ids(self, source: int) -> bool:
        return bool(self._all[_SHOWN] >> source & 1)

    def drop(self, about: Words) -> None:
        """Forget of documents what nobody needs, in place."""
        for column, needed in ((TEXT, _TEXTS), (ID, _IDS)):
            kept = self._all[needed] >> about[:, SOURCE] & 1
            about[kept == 0, column] = self.nothing


def _bits(sources: set[int]) -> int:
    return sum(1 << source for source in sources)
