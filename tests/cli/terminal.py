"""Commands as a shell would run them."""

from __future__ import annotations

from pathlib import Path

import pytest

from braid.cli.main import app, guarded


class Terminal:
    """Runs commands in a directory, and keeps what they wrote."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys
        self.out = ""
        self.err = ""

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name

    def run(self, *args: str) -> int:
        status = guarded(lambda: app(list(args)))
        self.out, self.err = self.capsys.readouterr()
        return status
