"""The walk of `docs/adding_an_operator.md` leads to a family that runs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.operators.copies import ROOT, Copy, copied

PAGE = (ROOT / "docs" / "adding_an_operator.md").read_text(encoding="utf-8")
FILES: dict[str, str] = dict(
    re.findall(r'^```python title="([^"]+)"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE)
)
SCRIPT = "try_throttle.py"
FAMILY = "throttle"


def walked(folder: Path) -> Copy:
    """A copy of the tree with the family of the page."""
    tree = copied(folder)
    for path, code in FILES.items():
        if path != SCRIPT:
            tree.write(path, code)
    added = re.search(r'^     "(\w+)",\n\+    "(\w+)",$', PAGE, re.MULTILINE)
    assert added is not None
    after, family = added.groups()
    assert family == FAMILY
    tree.register(family, after)
    return tree


def test_the_walk_runs(tmp_path: Path) -> None:
    """The files and the line of the page are enough, and its script prints what the page says."""
    shown = re.search(r"^```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert shown is not None
    assert walked(tmp_path).run(FILES[SCRIPT]) == shown[1]


def test_it_goes_on_after_a_restart_and_shares_no_state_with_later_queries(tmp_path: Path) -> None:
    code = FILES[SCRIPT].partition("\nevents = ")[0]
    code += """
def batch(*ends):
    columns = {"__start": list(ends), "__end": list(ends), "cpu": list(ends)}
    return pa.RecordBatch.from_pydict(columns)

def shown(emission):
    return sorted((r.query, r.table["cpu"].to_pylist()) for r in emission.results)

def fed(shard, *ends):
    shard.accept("Load", batch(*ends), now=0)
    shard.observe("Load", max(ends), now=0)
    return shown(shard.advance(now=0))

print(fed(shard, 1, 4))
pages = shard.save().puts
late = Query("late", "", queries[0].outputs)
shard = Shard.load(pages, [*queries, late], {"Load": stream})
print(fed(shard, 9, 10, 12, 15))
print(shown(shard.finish()))
print(sorted(shard.executor.plan.mops[m].made_by for m in shard.executor.order))
"""
    first, second, last, rules = walked(tmp_path).run(code).splitlines()
    assert first == "[('one', [1]), ('two', [1])]"
    assert second == "[('late', [4]), ('one', [12]), ('two', [12])]"
    assert last == "[('late', [15])]"
    assert rules == "[('s_throttle',), ('s_throttle',)]"


def test_the_rule_can_be_switched_off(tmp_path: Path) -> None:
    code = FILES[SCRIPT].replace(
        'Shard(queries, {"Load": stream})',
        'Shard(queries, {"Load": stream}, options=ShardOptions(Options(rules={"s_throttle": False})))',
    )
    code = "from braid.engine.options import Options, ShardOptions\n" + code
    printed = walked(tmp_path).run(code)
    assert printed.startswith("one [20, 40, 50]\ntwo [20, 40, 50]\n[20, 40, 50]\n")
    assert "merged by no rule" in printed
