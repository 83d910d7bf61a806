"""Small files of a job, on the local disk or at any URL that Arrow can reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from braid.errors import ConfigError


def read_text(location: str) -> str | None:
    """The content of a file; None if it does not exist."""
    system, path = _open(location)
    try:
        with system.open_input_stream(path) as stream:
            text: str = stream.read().decode("utf-8")
            return text
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("E463", f"cannot read {location}: {error}") from None


def write_text(folder: str, name: str, text: str) -> None:
    """Write a new file into a directory; readers see all of it or nothing.

    It is written first under a name that Spark's file streams ignore.
    """
    system, path = _open(folder)
    try:
        system.create_dir(path, recursive=True)
        with system.open_output_stream(f"{path}/.{name}.part") as stream:
            stream.write(text.encode("utf-8"))
        system.move(f"{path}/.{name}.part", f"{path}/{name}")
    except OSError as error:
        raise ConfigError("E463", f"cannot write to {folder}: {error}") from None


def names(folder: str) -> list[str]:
    """The complete files of a directory in order of their names."""
    system, path = _open(folder)
    try:
        found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    except OSError as error:
        raise ConfigError("E463", f"cannot read {folder}: {error}") from None
    files = (info.base_name for info in found if info.type == fs.FileType.File)
    return sorted(name for name in files if not name.startswith((".", "_")))


def _open(location: str) -> tuple[Any, str]:
    """The scheme s3a of Spark as s3, its name elsewhere."""
    url = location.replace("s3a://", "s3://", 1)
    try:
        if "://" not in url:
            return fs.LocalFileSystem(), str(Path(url).resolve())
        system, path = fs.FileSystem.from_uri(url)
        return system, path
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise ConfigError("E463", f"cannot reach {location}: {error}") from None
