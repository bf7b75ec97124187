#!/bin/sh
# Installs the Node clients that tests/live/clients runs, and the checker of tests/browser/test_axe.py, in the
# versions of the lock file.
# Nothing happens when they are there already.
set -eu
cd "$(dirname "$0")"
if npm ls >/dev/null 2>&1; then exit 0; fi
exec npm ci
