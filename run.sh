#!/usr/bin/env bash
# Starts Taximeter:   ./run.sh            the same as ./run.sh up
#                     ./run.sh test       the whole test suite (arguments go to pytest)
#                     ./run.sh check      lint, format, types, generated docs
#                     ./run.sh COMMAND …  any command of taximeter
# The first call makes .venv from requirements.lock, and the first test or check adds the development
# tools of requirements-dev.lock; later calls only use it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

fits() { # does this command run, and is it Python 3.12 or newer with venv and SQLite?
  "$1" -c 'import ensurepip, sqlite3, sys, venv; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1
}

find_python() {
  local candidate found=""
  for candidate in python3.13 python3.12 python3.14 python3 python; do
    if fits "$candidate"; then command -v "$candidate"; return; fi
  done
  for candidate in "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python; do
    if fits "$candidate"; then found=$candidate; fi
  done
  if [ -n "$found" ]; then echo "$found"; return; fi
  if command -v uv >/dev/null 2>&1; then
    uv python find '>=3.12' 2>/dev/null || { uv python install 3.13 >&2 && uv python find 3.13; }
    return
  fi
  echo "Taximeter needs Python 3.12 or newer, and none was found. Install one (for example with your" >&2
  echo "package manager, pyenv or uv) so that 'python3.12 --version' runs, then call ./run.sh again." >&2
  return 1
}

install() { .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@" >&2; }

make_venv() {
  local python wanted
  wanted=$(cksum <requirements.lock)-$(cksum <pyproject.toml)-$(pwd)
  if [ -x .venv/bin/taximeter ] && [ "$(cat .venv/made-from 2>/dev/null)" = "$wanted" ]; then return; fi
  python=$(find_python)
  echo "Making .venv with $("$python" --version) from requirements.lock; this happens once …" >&2
  "$python" -m venv --clear .venv
  install --require-hashes -r requirements.lock
  # setuptools reminds at length that an editable install follows this folder, which is what is meant.
  PYTHONWARNINGS=ignore install --no-deps --no-build-isolation -e .
  echo "$wanted" >.venv/made-from
}

add_tools() {
  local wanted
  wanted=$(cksum <requirements-dev.lock)
  if [ "$(cat .venv/tools-from 2>/dev/null)" = "$wanted" ]; then return; fi
  echo "Adding the development tools from requirements-dev.lock; this happens once …" >&2
  install --require-hashes -r requirements-dev.lock
  echo "$wanted" >.venv/tools-from
}

make_venv
case "${1:-up}" in test | check) add_tools ;; esac
case "${1:-up}" in
  # On up to four processors, each file on one. What starts real services waits more than it works.
  test) shift; exec .venv/bin/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile "$@" ;;
  check)
    .venv/bin/ruff check .
    .venv/bin/ruff format --check .
    .venv/bin/mypy
    PYTHONPATH=. .venv/bin/cog --check README.md docs/*.md
    ;;
  *) exec .venv/bin/taximeter "${@:-up}" ;;
esac
