"""Every Python example in README and docs runs; links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import markdown

PAGES = markdown.pages()
MODULE = re.compile(r"`((?:\w+/)+\w+\.py)`")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.+?)\s*$", re.MULTILINE)
FENCED = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=[p.name for p in PAGES])
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    markdown.run(page, with_spark=False)


SPARK_PAGES = [p for p in PAGES if any(e.needs_spark for e in markdown.examples(p))]


@pytest.mark.spark
def test_examples_run_on_spark(tmp_path: Path) -> None:
    """All pages in one process, which is not this one: a JVM stays in the directory in which it
    was started, and takes longer to start than the pages to run."""
    paths = os.pathsep.join([str(markdown.ROOT), str(markdown.ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "tests.project.markdown", *map(str, SPARK_PAGES)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def documents() -> list[Path]:
    root = markdown.ROOT
    folders = [root / "docs", root / "benchmarks", root / ".github"]
    return [*root.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """The names that the headings of a page have in links."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", documents(), ids=lambda p: str(p.relative_to(markdown.ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Files exist, and so do the headings that links name."""
    missing = []
    for target, anchor in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        found = page.parent / target if target else page
        if not found.exists() or (anchor and anchor not in anchors(found)):
            missing.append(f"{target}#{anchor}")
    assert not missing


@pytest.mark.parametrize("page", documents(), ids=lambda p: str(p.relative_to(markdown.ROOT)))
def test_modules_that_pages_name_exist(page: Path) -> None:
    """By their path from the root, or from `src/braid`. The changelog names what there was."""
    if page.name == "CHANGELOG.md":
        return
    roots = (markdown.ROOT, markdown.ROOT / "src" / "braid")
    named = MODULE.findall(page.read_text(encoding="utf-8"))
    missing = [path for path in named if not any((root / path).exists() for root in roots)]
    assert not missing
