#!/usr/bin/env bash
# Prints a Python interpreter that Braid can run on (3.11 to 3.14, with venv and pip); $PYTHON first.
set -euo pipefail

suits() {
  "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' \
    >/dev/null 2>&1
}

for candidate in ${PYTHON:-} python3.13 python3.12 python3.11 python3.14 python3 python; do
  if command -v "$candidate" >/dev/null 2>&1 && suits "$candidate"; then
    command -v "$candidate"
    exit 0
  fi
done

cat >&2 <<'MESSAGE'
Braid needs Python 3.11, 3.12, 3.13 or 3.14 with the venv and pip modules, and none was found.
  Debian, Ubuntu:  apt-get install python3 python3-venv
  macOS:           brew install python@3.12
  elsewhere:       set PYTHON to a suitable interpreter: make setup PYTHON=/path/to/python3.12
MESSAGE
exit 1
