"""Damaged checkpoints are refused with E421, whichever file or page is damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from braid import CheckpointError
from braid.errors import BraidError
from braid.spark.pipeline.shipping import Shipped
from tests.properties.damage import damaged_bytes
from tests.spark.shards.test_shards import Cluster, Store
from tests.spark.support import KEYED, Market, stock_rows
from tests.spark.test_restart import run

MANIFEST = ("~manifest",)


def copied(store: Store) -> Store:
    made = Store()
    made.token.value, made.pages.values = store.token.value, dict(store.pages.values)
    return made


def stores(monkeypatch: pytest.MonkeyPatch) -> tuple[Cluster, Store, Store]:
    """A shard after two batches, and its store after each."""
    cluster = Cluster(monkeypatch)
    cluster.batch("one", ("a", 1, 1), ("z", 0, 2))
    before = copied(cluster.store)
    cluster.batch("one", ("a", 2, 3), ("b", 0, 4))
    return cluster, before, copied(cluster.store)


def follows(cluster: Cluster, store: Store) -> list[object]:
    """What a pipeline that is started again answers from this store."""
    cluster.stores[0] = copied(store)
    cluster.job = Shipped(cluster.job.open())
    cluster.alive.clear()
    return cluster.batch("two", ("b", 5, 6), ("z", 0, 9))


def refused(cluster: Cluster, store: Store) -> str:
    with pytest.raises(BraidError) as caught:
        follows(cluster, store)
    assert isinstance(caught.value, CheckpointError), caught.value
    assert caught.value.code == "E421", caught.value
    return caught.value.message


def test_a_page_that_was_changed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, _, after = stores(monkeypatch)
    assert follows(cluster, after)
    drawn = np.random.default_rng(1)
    names = list(after.pages.values)
    for number in range(300):
        store, name = copied(after), names[number % len(names)]
        (page,) = store.pages.values[name]
        changed = damaged_bytes(page, drawn)
        if changed != page:
            store.pages.values[name] = (changed,)
            refused(cluster, store)


def test_pages_of_other_versions_and_places_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, before, after = stores(monkeypatch)
    changed = [n for n, p in before.pages.values.items() if after.pages.values.get(n) != p]
    assert changed
    for name in changed:  # an older version of one page
        store = copied(after)
        store.pages.values[name] = before.pages.values[name]
        refused(cluster, store)
    for name in after.pages.values:  # a page that is not there
        store = copied(after)
        del store.pages.values[name]
        refused(cluster, store)
    first, second = [n for n in after.pages.values if n[0].startswith("mop/")][:2]
    store = copied(after)  # two pages in each other's place
    pages = store.pages.values
    pages[first], pages[second] = pages[second], pages[first]
    assert "checksum" in refused(cluster, store)
    store = copied(after)  # one page more
    store.pages.values["mop/x/y/0",] = store.pages.values[first]
    refused(cluster, store)


def test_a_token_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, before, after = stores(monkeypatch)
    store = copied(after)
    store.token.value = before.token.value
    assert "another version" in refused(cluster, store)
    store.token.value = None
    assert "no record of what wrote them" in refused(cluster, store)


def test_pages_of_another_shard_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, (0, 1))
    rows = [(name, 1, 1) for name in "abcdefgh"]
    cluster.batch(("one", "one"), *rows, ("z", 0, 2))
    cluster.stores[0], cluster.stores[1] = cluster.stores[1], cluster.stores[0]
    cluster.alive.clear()
    with pytest.raises(CheckpointError, match="E421"):
        cluster.batch(("two", "two"), *rows)


def test_pages_without_checksums_are_of_an_older_version(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, _, after = stores(monkeypatch)
    store = copied(after)
    del store.pages.values[MANIFEST]
    store.pages.values["meta",] = (b'{"format": 4}',)
    with pytest.raises(CheckpointError, match=r"E420.*format 4"):
        follows(cluster, store)


def flip(file: Path) -> None:
    """Change a file, and forget the checksum that Hadoop keeps beside it."""
    data = bytearray(file.read_bytes())
    for place in range(0, len(data), 97):
        data[place] ^= 0x55
    file.write_bytes(data)
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)


DAMAGE: list[tuple[str, Callable[[Path], None]]] = [
    ("braid/plan.json", flip),
    ("braid/plan.json", cut),
    ("metadata", flip),
    ("offsets/*", flip),
    ("commits/*", cut),
    ("state/0/*/*.zip", flip),
    ("state/0/*/SSTs/*.sst", flip),
]


def test_a_damaged_checkpoint_is_refused(market: Market, tmp_path: Path) -> None:
    """Braid's own files and those of Spark."""
    intact = tmp_path / "intact"
    market.write("Stock", stock_rows(60, 0, seed=1), "0")
    run(market.session({"jump": KEYED}), intact)
    market.write("Stock", stock_rows(60, 40, seed=2), "1")
    for number, (files, damage) in enumerate(DAMAGE):
        damaged = tmp_path / f"damaged{number}"
        shutil.copytree(intact, damaged)
        found = [file for file in damaged.glob(files) if not file.name.startswith(".")]
        assert found, files
        for file in found:
            damage(file)
        with pytest.raises(CheckpointError, match=r"E421.*damaged"):
            run(market.session({"jump": KEYED}), damaged)
    assert run(market.session({"jump": KEYED}), intact).rows
