"""Check text files for damage that no linter of one language sees; `--fix` mends whitespace.

The hooks of `.pre-commit-config.yaml` run this on the files of a commit, and the tests run it on
every file of the repository. It needs nothing but Python.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

#: Larger files slow every clone down: data belongs to a generator or a download.
LARGEST = 512 * 1024
CONFLICT = re.compile(r"^(<{7} |>{7} |={7}$)", re.MULTILINE)
TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)


def mended(text: str) -> str:
    """The text with Unix line ends, no trailing blanks, and exactly one newline at its end."""
    text = TRAILING.sub("", text.replace("\r\n", "\n"))
    return text.rstrip("\n") + "\n" if text.strip() else ""


def problems(path: Path, data: bytes) -> Iterator[str]:
    """Everything that is wrong with a file, one line each."""
    if len(data) > LARGEST:
        yield f"has {len(data):,} bytes, more than {LARGEST:,}"
    if b"\0" in data:
        return  # not a text
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        yield f"is not UTF-8: {error}"
        return
    if CONFLICT.search(text):
        yield "has the markers of a merge conflict"
    if text != mended(text):
        yield "has trailing blanks, carriage returns, or not exactly one newline at its end"
    if data.startswith(b"#!") and not path.stat().st_mode & 0o111:
        yield "starts with #! and is not executable"
    if path.suffix == ".toml":
        try:
            tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            yield f"does not parse: {error}"


def fix(path: Path, data: bytes) -> bytes:
    """Mend the whitespace of a file on disk, if it is a text; return what it holds then."""
    try:
        better = mended(data.decode("utf-8")).encode()
    except UnicodeDecodeError:
        return data
    if b"\0" in data or better == data:
        return data
    path.write_bytes(better)
    print(f"{path}: whitespace mended")
    return better


def main(arguments: Sequence[str]) -> int:
    """Check the files that are named; 1 if something was wrong, also if it was mended."""
    fixing = "--fix" in arguments
    wrong = False
    for name in arguments:
        path = Path(name)
        if name == "--fix" or not path.is_file() or path.is_symlink():
            continue
        data = path.read_bytes()
        if fixing:
            before, data = data, fix(path, data)
            wrong |= before != data
        for problem in problems(path, data):
            print(f"{path}: {problem}")
            wrong = True
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
