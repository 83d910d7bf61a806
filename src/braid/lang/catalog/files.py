"""Query files: the files of a path, a folder or a pattern, and loading in any order."""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from pathlib import Path

from braid.errors import BraidError, ConfigError, QueryErrors
from braid.lang.catalog.catalog import Catalog
from braid.lang.catalog.load import load

#: The suffixes of query files in a folder.
SUFFIXES = (".cel", ".cql", ".sql")


def query_files(pattern: str | Path, base: Path | None = None) -> list[Path]:
    """The files in order of their names: one file, the files of a folder and its sub-folders, or
    the matches of a pattern (`**` stands for any folders). None if there is no file."""
    path = (base or Path()) / pattern
    if path.is_file():
        return [path]
    if path.is_dir():
        inside = (p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
        return sorted(p for p in inside if not _is_hidden(p.relative_to(path)))
    found = glob.glob(str(path), recursive=True)
    return sorted(p for p in map(Path, found) if p.is_file())


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def read_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("E456", f"cannot read {path}: {error}") from None


def load_in_turns(
    files: Sequence[Path], load_one: Callable[[str, Path], object]
) -> dict[Path, list[BraidError]]:
    """Load files in any order; returns the errors of those that cannot be loaded.

    A file may read streams that another file publishes, so a file that fails is tried again. The
    rounds end when one of them loads no file; the errors of that round are the result.
    """
    errors: dict[Path, list[BraidError]] = {}
    left = list(files)
    while left:
        errors = {}
        for path in left:
            try:
                load_one(read_file(path), path)
            except BraidError as error:
                errors[path] = flatten(error)
        if len(errors) == len(left):
            break
        left = list(errors)
    return errors


def loadable(
    pattern: str | Path, catalog: Catalog, *, missing: str = "E456"
) -> list[tuple[str, Path]]:
    """Files with their texts, in an order in which a catalog can load them.

    The catalog does not change. Raises all errors of all files.
    """
    files = query_files(pattern)
    if not files:
        hint = f"give a query file, a pattern, or a folder of files ({', '.join(SUFFIXES)})"
        raise ConfigError(missing, f"nothing matches '{pattern}'", hint)
    if len(files) == 1:
        return [(read_file(files[0]), files[0])]
    found: list[tuple[str, Path]] = []
    trial = catalog.copy()

    def load_one(text: str, path: Path) -> None:
        load(text, trial, name=str(path))
        found.append((text, path))

    errors = load_in_turns(files, load_one)
    if errors:
        every = [error for path in files for error in errors.get(path, ())]
        raise every[0] if len(every) == 1 else QueryErrors(every)
    return found


def flatten(error: BraidError) -> list[BraidError]:
    """The single errors in an error."""
    return list(error.errors) if isinstance(error, QueryErrors) else [error]
