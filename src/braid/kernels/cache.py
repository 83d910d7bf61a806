"""Compiled kernels of other versions of this package are thrown away.

The compiler keeps its results beside the sources and notices when the file of a function
changes, but not when a file does from which code was inlined, nor when a type that a result
mentions is gone. An upgrade could therefore meet results that no longer fit. A stamp beside
them says which sources they belong to.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path


def sources_digest() -> str:
    """A hash of all kernel sources."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def forget_stale_results() -> None:
    """Remove compiled results that belong to other sources; a read-only install has none of ours."""
    directory = Path(__file__).parent / "__pycache__"
    stamp, current = directory / "kernels.stamp", sources_digest()
    with contextlib.suppress(OSError):
        if stamp.exists() and stamp.read_text(encoding="ascii") == current:
            return
        directory.mkdir(exist_ok=True)
        for result in (*directory.glob("*.nbi"), *directory.glob("*.nbc")):
            result.unlink(missing_ok=True)
        stamp.write_text(current, encoding="ascii")
