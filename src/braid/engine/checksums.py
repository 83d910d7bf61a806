"""Checksums of saved state: a read returns the written bytes, or raises E421.

A checksum covers the *identity* of the bytes (such as the name of a page) as well as the bytes, so
that a misplaced page is noticed. `seal` and `unseal` are for bytes that are read alone: a page, a
manifest, a record of a log. A `Ledger` is for many sealed pages that change independently. It adds
up their checksums, so that 16 bytes identify the versions of all pages, and a batch updates the sum
with the pages that it changed.

A checksum has 128 bits. It guards against damage, not against forgery: a program that can write a
checkpoint can also write its checksums.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from braid.errors import ANEW, BraidError, damaged

#: Bytes of a checksum.
SIZE = 16

__all__ = ["SIZE", "Ledger", "checksum", "damaged", "reading", "seal", "unseal"]

_WRAP = 1 << (8 * SIZE)


def checksum(identity: str, data: bytes | memoryview) -> bytes:
    """The checksum of bytes with this identity."""
    name = identity.encode()
    state = hashlib.blake2b(len(name).to_bytes(8, "little") + name, digest_size=SIZE)
    state.update(data)
    return state.digest()


def seal(identity: str, data: bytes) -> bytes:
    """The bytes followed by their checksum, for `unseal`."""
    return data + checksum(identity, data)


def unseal(identity: str, sealed: bytes, hint: str = ANEW) -> bytes:
    """The bytes that were sealed under this identity. Raises E421 for others."""
    data = sealed[:-SIZE]
    if len(sealed) < SIZE or checksum(identity, data) != sealed[-SIZE:]:
        raise damaged(f"{identity} does not have the checksum that it was saved with", hint)
    return data


class Ledger:
    """The checksums of all stored pages, and their sum."""

    def __init__(self, digests: Mapping[str, bytes] | None = None) -> None:
        self.digests: dict[str, bytes] = {}
        self._sum = 0
        for name, digest in (digests or {}).items():
            self.put(name, digest)

    def put(self, name: str, digest: bytes) -> None:
        self.remove(name)
        self.digests[name] = digest
        self._sum = (self._sum + int.from_bytes(digest, "little")) % _WRAP

    def remove(self, name: str) -> None:
        digest = self.digests.pop(name, None)
        if digest is not None:
            self._sum = (self._sum - int.from_bytes(digest, "little")) % _WRAP

    def __len__(self) -> int:
        return len(self.digests)

    @property
    def sum(self) -> str:
        """The sum over the names and contents of the pages. Any difference changes it."""
        return self._sum.to_bytes(SIZE, "little").hex()


@contextmanager
def reading(what: str, hint: str = ANEW) -> Iterator[None]:
    """A block in which every error becomes E421: the checksums were right, so another program wrote
    the bytes."""
    try:
        yield
    except BraidError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise damaged(f"{what} cannot be read ({said.splitlines()[0]})", hint) from error
