"""Copies of the source tree with other operator families, run in processes of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Copy:
    """`source`: the folder that has the package `braid`."""

    source: Path

    @property
    def registry(self) -> Path:
        return self.source / "braid" / "operators" / "registry.py"

    def write(self, path: str, text: str) -> None:
        """A file below the package."""
        target = self.source / "braid" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        (target.parent / "__init__.py").touch()
        target.write_text(text, encoding="utf-8")

    def register(self, family: str, after: str) -> None:
        """Add the line of a family."""
        text = self.registry.read_text(encoding="utf-8")
        line = f'    "{after}",\n'
        assert text.count(line) == 1
        text = text.replace(line, f'{line}    "{family}",\n')
        self.registry.write_text(text, encoding="utf-8")

    def remove(self, family: str) -> None:
        """Take a family's line out of the registry, and delete its package."""
        text = self.registry.read_text(encoding="utf-8")
        text, count = re.subn(rf'^    "{family}",\n', "", text, flags=re.MULTILINE)
        assert count == 1, f"{family} has {count} lines"
        self.registry.write_text(text, encoding="utf-8")
        shutil.rmtree(self.source / "braid" / "operators" / family)

    def run(self, code: str) -> str:
        """What a script prints that imports this copy, without the compiler: it starts sooner."""
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(self.source), "NUMBA_DISABLE_JIT": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def copied(folder: Path) -> Copy:
    """A copy of the tree in a folder."""
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "braid", folder / "braid", ignore=without)
    return Copy(folder)
