#!/usr/bin/env bash
# Rewrites requirements.lock from pyproject.toml: resolves all dependencies without installing.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${1:-.venv/bin/python}"
report="$(mktemp)"
trap 'rm -f "$report"' EXIT
mapfile -t wanted < <("$python" - <<'PYTHON'
import tomllib
with open("pyproject.toml", "rb") as file:
    data = tomllib.load(file)
project = data["project"]
print("\n".join([*project["dependencies"], *project["optional-dependencies"]["dev"], *data["build-system"]["requires"], "editables"]))
PYTHON
)
"$python" -m pip install --quiet --dry-run --ignore-installed --report "$report" "${wanted[@]}"
{
  grep '^#' requirements.lock
  "$python" - "$report" <<'PYTHON'
import json
import sys
with open(sys.argv[1]) as file:
    found = json.load(file)["install"]
pins = {item["metadata"]["name"].lower().replace("_", "-"): item["metadata"]["version"] for item in found}
print("\n".join(f"{name}=={version}" for name, version in sorted(pins.items())))
PYTHON
} > requirements.lock.new
mv requirements.lock.new requirements.lock
