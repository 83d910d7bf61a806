"""Python examples of Markdown pages, as tests run them.

The fenced `python` blocks of a page run one after another and share their names, as a reader
would type them. A block after a line `<!-- spark -->` needs Spark and runs in a Spark test only.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(<!-- spark -->\s*\n)?^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Example:
    page: Path
    line: int
    code: str
    needs_spark: bool


def pages() -> list[Path]:
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if page.exists() and examples(page)]


def examples(page: Path) -> list[Example]:
    text = page.read_text(encoding="utf-8")
    return [
        Example(page, text.count("\n", 0, m.start(2)) + 1, m[2], m[1] is not None)
        for m in BLOCK.finditer(text)
    ]


def run(page: Path, *, with_spark: bool) -> None:
    """Run a page's blocks in order; errors show the line of the page."""
    names: dict[str, Any] = {"__name__": "__example__"}
    for example in examples(page):
        if example.needs_spark and not with_spark:
            continue
        padding = "\n" * (example.line - 1)
        exec(compile(padding + example.code, str(page), "exec"), names)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        run(Path(name), with_spark=True)
