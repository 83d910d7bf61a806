"""Checksums of saved state: what was read is what was written, or E421.

A checksum covers what the bytes are (their *identity*, such as the name of a page) as well as the
bytes, so that a page in the place of another one is noticed. `seal` and `unseal` are for bytes that
are read alone: a page, a manifest, a record of a log. A `Ledger` is for many sealed pages that
change one by one: it adds their checksums up, so that one number of 16 bytes says which version of
which pages belong together, and a batch updates it by the pages that it changed.

A checksum has 128 bits. It guards against damage, not against somebody who forges state: whoever
can write a checkpoint can also write its checksums.
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
    """The checksum of bytes that are what `identity` says."""
    name = identity.encode()
    state = hashlib.blake2b(len(name).to_bytes(8, "little") + name, digest_size=SIZE)
    state.update(data)
    return state.digest()


def seal(identity: str, data: bytes) -> bytes:
    """The bytes with their checksum behind them, as `unseal` takes them."""
    return data + checksum(identity, data)


def unseal(identity: str, sealed: bytes, hint: str = ANEW) -> bytes:
    """The bytes that were sealed under this identity; E421 if these are others."""
    data = sealed[:-SIZE]
    if len(sealed) < SIZE or checksum(identity, data) != sealed[-SIZE:]:
        raise damaged(f"{identity} does not have the checksum that it was saved with", hint)
    return data


class Ledger:
    """The checksums of all pages that are stored, and their sum."""

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
        """Which pages there are and what is in them: another number if anything of that differs."""
        return self._sum.to_bytes(SIZE, "little").hex()


@contextmanager
def reading(what: str, hint: str = ANEW) -> Iterator[None]:
    """Whatever goes wrong while saved state is read is damage: checksums have said that the bytes
    are those that were written, so somebody else has written them."""
    try:
        yield
    except BraidError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise damaged(f"{what} cannot be read ({said.splitlines()[0]})", hint) from error
