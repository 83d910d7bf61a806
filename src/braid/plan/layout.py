"""The layout of an event or an instance in a row of 64-bit words.

| word          | content                                              |
| ------------- | ---------------------------------------------------- |
| 0             | start                                                |
| 1             | end                                                  |
| 2 .. 1+m      | m mask words: bit j%64 of word j//64: column j is NULL |
| 2+m ..        | one word for each column                             |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

START = 0
END = 1
MASK = 2


@dataclass(frozen=True)
class Layout:
    """The columns of a row, by name."""

    names: tuple[str, ...]

    @cached_property
    def masks(self) -> int:
        return max(1, (len(self.names) + 63) // 64)

    @cached_property
    def base(self) -> int:
        """The word of the first column."""
        return MASK + self.masks

    @cached_property
    def width(self) -> int:
        return self.base + len(self.names)

    def column(self, name: str) -> int:
        return self.names.index(name)

    def word(self, name: str) -> int:
        return self.base + self.names.index(name)
