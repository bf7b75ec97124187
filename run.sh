#!/usr/bin/env bash
# Starts Taximeter:   ./run.sh            the same as ./run.sh up
#                     ./run.sh test       the whole test suite (arguments go to pytest)
#                     ./run.sh test --quick  without a browser, running services, pages and slow tests, with fewer examples
#                     ./run.sh check      lint, format, types, generated files, known vulnerabilities;
#                                         with --newest instead: what is new in the vendor's newest SDK
#                     ./run.sh generate   generate those files anew; with --pictures those of the documents too
#                     ./run.sh bench      measurements, beside other proxies with --peers (bench/README.md)
#                     ./run.sh COMMAND …  any command of taximeter
# The first call makes .venv from requirements.lock, and the first test, check, generate or bench adds
# the development tools of requirements-dev.lock; later calls only use it. TAXIMETER_PYTHON names the Python to use.
# Where there is only an older Python, that installs uv, which downloads Python 3.13 into .venv/python.
set -euo pipefail
caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"

LOG=.venv/install.log
BROUGHT=.venv/python # where uv puts the Python that it downloads

fits() { # does this command run, and is it Python 3.12 or newer with venv and SQLite?
  "$1" -c 'import ensurepip, sqlite3, sys, venv; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1
}

can_install() { # does this command run, and can it make an environment that uv is installed into?
  "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 8))' >/dev/null 2>&1
}

find_python() {
  local candidate found=""
  if [ -n "${TAXIMETER_PYTHON:-}" ]; then
    if fits "$TAXIMETER_PYTHON"; then echo "$TAXIMETER_PYTHON"; return; fi
    echo "TAXIMETER_PYTHON=$TAXIMETER_PYTHON is not a command that runs Python 3.12 or newer." >&2
    return 1
  fi
  for candidate in python3.13 python3.12 python3.14 python3 python; do
    if fits "$candidate"; then command -v "$candidate"; return; fi
  done
  for candidate in "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python "$PWD"/"$BROUGHT"/*/bin/python3.13; do
    if fits "$candidate"; then found=$candidate; fi
  done
  if [ -n "$found" ]; then echo "$found"; return; fi
  if command -v uv >/dev/null 2>&1; then
    uv python find '>=3.12' 2>/dev/null || { uv python install 3.13 >&2 && uv python find 3.13; } || say_what_to_do downloading
  else
    bring_python
  fi
}

bring_python() { # by uv, which any older Python installs; all of it stays in .venv
  local candidate
  for candidate in python3 python python3.11 python3.10 python3.9 python3.8; do
    can_install "$candidate" || continue
    echo "There is no Python 3.12 or newer here: $("$candidate" --version) installs uv, which downloads Python 3.13 …" >&2
    empty_venv && logged "$candidate" -m venv .venv && install uv &&
      logged env UV_PYTHON_INSTALL_DIR="$PWD/$BROUGHT" UV_PYTHON_INSTALL_BIN=0 UV_NO_CACHE=1 \
        .venv/bin/uv python install 3.13 &&
      for candidate in "$PWD"/"$BROUGHT"/*/bin/python3.13; do
        if fits "$candidate"; then echo "$candidate"; return; fi
      done
    say_what_to_do downloading
    return 1
  done
  say_what_to_do
}

say_what_to_do() { # `downloading` failed: then no command that leads to it again
  local command="" failed=${1:-}
  if command -v brew >/dev/null 2>&1; then
    command="brew install python@3.13"
  elif command -v dnf >/dev/null 2>&1; then
    command="sudo dnf install python3.12"
  elif [ -n "$failed" ]; then
    command=""
  elif command -v apt-get >/dev/null 2>&1; then
    command="sudo apt-get install python3 python3-venv
(On Debian 12 and Ubuntu 22.04 that is an older one, which ./run.sh then uses to download Python 3.13.)"
  else
    command="curl -LsSf https://astral.sh/uv/install.sh | sh && uv python install 3.13"
  fi
  if [ -n "$failed" ]; then
    echo "Python 3.13 could not be downloaded. UV_PYTHON_INSTALL_MIRROR names another place than GitHub for it." >&2
  fi
  echo "Taximeter needs Python 3.12 or newer, with venv.${command:+ This command installs one:}" >&2
  if [ -n "$command" ]; then echo "    $command" >&2; fi
  echo "Call ./run.sh again when it is there. TAXIMETER_PYTHON names a Python that is somewhere else." >&2
  return 1
}

empty_venv() { # but keep the Python that was downloaded into it
  mkdir -p .venv && find .venv -mindepth 1 -maxdepth 1 ! -path "$BROUGHT" -exec rm -rf {} +
}

logged() { # run a command with its output in the log, which is shown when the command fails
  "$@" >>"$LOG" 2>&1 && return
  tail -n 30 "$LOG" >&2
  echo "Installing failed; all of it is in $LOG. Call ./run.sh again when the cause is gone." >&2
  return 1
}

install() { logged .venv/bin/python -m pip install --disable-pip-version-check --progress-bar off "$@"; }

install_ours() { install --no-deps --no-build-isolation -e .; }

packages_in() { echo "$(grep -c '^[a-z0-9]' "$1") packages from $1"; }

is_other_python() { # was .venv made with another Python than the one that is asked for?
  [ -n "${TAXIMETER_PYTHON:-}" ] &&
    [ "$("$TAXIMETER_PYTHON" --version 2>/dev/null)" != "$(.venv/bin/python --version)" ]
}

make_venv() {
  local python lock wanted
  lock=$(cksum <requirements.lock)
  wanted=$lock-$(cksum <pyproject.toml)-$(pwd)
  if [ -x .venv/bin/taximeter ] && ! is_other_python; then
    case "$(cat .venv/made-from 2>/dev/null)" in
      "$wanted") return ;;
      "$lock-"*"-$(pwd)") # all that is installed stays as it is, but our own metadata
        install_ours
        echo "$wanted" >.venv/made-from
        return
        ;;
    esac
  fi
  python=$(find_python)
  empty_venv
  echo "Installing Taximeter into .venv with $("$python" --version); this happens once." >&2
  logged "$python" -m venv .venv
  echo "Installing $(packages_in requirements.lock), which may take a minute …" >&2
  install --require-hashes -r requirements.lock
  install_ours
  echo "$wanted" >.venv/made-from
  echo "Installed." >&2
}

add_tools() {
  local wanted
  wanted=$(cksum <requirements-dev.lock)
  if [ "$(cat .venv/tools-from 2>/dev/null)" = "$wanted" ]; then return; fi
  echo "Installing $(packages_in requirements-dev.lock) for tests and checks; this happens once …" >&2
  install --require-hashes -r requirements-dev.lock
  echo "$wanted" >.venv/tools-from
  echo "Installed." >&2
}

make_venv
case "$0" in */*) TAXIMETER_CALLED_AS=$0 ;; *) TAXIMETER_CALLED_AS=./$0 ;; esac # what hints of the program say
case "${1:-up}" in test | check | generate | bench) add_tools ;; esac
case "${1:-up}" in
  test)
    shift
    if [ "${1:-}" = --quick ]; then # --ignore: only to import a module takes time, too
      shift
      set -- --hypothesis-profile quick -m "not live and not browser and not served and not slow" --ignore tests/live --ignore tests/browser "$@"
    fi
    # Without bytecode each worker would rewrite the asserts of 500 files, and each process compile the rooms.
    unset PYTHONDONTWRITEBYTECODE
    # With up to four workers, each file in one (tests/scheduling.py), the long ones first (conftest.py).
    exec .venv/bin/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder "$@"
    ;;
  check)
    if [ "${2:-}" = --newest ]; then exec .venv/bin/python -m tests.newest_sdk; fi
    .venv/bin/ruff check .
    .venv/bin/ruff format --check .
    .venv/bin/mypy
    .venv/bin/python -m dashboard.tables.metadata --check
    PYTHONPATH=. .venv/bin/cog --check --check-fail-msg="Call ./run.sh generate." docs/*.md extensions/*/README.md dashboard/templates/help_costs.html
    .venv/bin/python -m tests.dependency_audit
    ;;
  generate) # the metadata first: docs are made from it
    .venv/bin/python -m dashboard.tables.metadata
    PYTHONPATH=. .venv/bin/cog -r --verbosity=1 docs/*.md extensions/*/README.md dashboard/templates/help_costs.html
    if [ "${2:-}" = --pictures ]; then .venv/bin/python -m tests.browser.pictures "${@:3}"; fi
    ;;
  bench)
    shift
    root=$PWD
    cd "$caller" # so that files which it names are where the caller is
    PYTHONPATH=$root exec "$root/.venv/bin/python" -P -m bench "$@"
    ;;
  run) # the client works where the caller is, with the data of every other command here
    root=$PWD data=${TAXIMETER_DATA_DIR:-data}
    case "$data" in /*) ;; *) data=$root/$data ;; esac
    cd "$caller"
    export TAXIMETER_CALLED_AS TAXIMETER_DATA_DIR=$data
    exec "$root/.venv/bin/taximeter" "$@"
    ;;
  *)
    export TAXIMETER_CALLED_AS
    exec .venv/bin/taximeter "${@:-up}"
    ;;
esac
