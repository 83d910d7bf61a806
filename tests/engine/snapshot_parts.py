"""A snapshot as its parts, and parts as a snapshot: for tests that change what is in one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from braid.engine import snapshot as snapshots
from braid.engine.checksums import SIZE, checksum


def opened(snapshot: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The header and the pages of a snapshot, without a look at the checksums."""
    at = len(snapshots.MAGIC)
    size = int.from_bytes(snapshot[at : at + 8], "little")
    at += 8 + SIZE
    header: dict[str, Any] = json.loads(snapshot[at : at + size])
    pages, at = {}, at + size
    for key, length, _ in header["pages"]:
        pages[key] = snapshot[at : at + length]
        at += length
    return header, pages


def sealed(header: Mapping[str, Any], pages: Mapping[str, bytes]) -> bytes:
    """A snapshot of these parts with checksums that fit."""
    listed = [[key, len(page), checksum(key, page).hex()] for key, page in pages.items()]
    text = json.dumps({**header, "pages": listed}).encode()
    begin = [snapshots.MAGIC, len(text).to_bytes(8, "little"), checksum(snapshots._HEADER, text)]
    return b"".join([*begin, text, *pages.values()])


def with_option(header: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """The header of a snapshot of an engine with other options."""
    return {**header, "options": {**header["options"], **options}}
