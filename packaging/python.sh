#!/bin/sh
# Brings the Python packages that tests want into bin/python, a virtual
# environment of this folder, each pinned by its hash. Idempotent, and silent
# when they are there. Needs no root, but Debian's python3-venv.
set -eu
cd "$(dirname "$0")/.."
wanted=packaging/python-packages.txt
there=bin/python/packages.txt
cmp -s "$wanted" "$there" && exit 0

log=$(mktemp)
trap 'rm -f "$log"' EXIT
rm -rf bin/python
if ! { python3 -m venv bin/python && bin/python/bin/python -m pip install --no-deps --require-hashes -r "$wanted"; } >"$log" 2>&1; then
	tail -n 3 "$log" >&2
	echo "python: $wanted could not be installed in bin/python: tests that want it will skip" >&2
	rm -rf bin/python
	exit 1
fi
cp "$wanted" "$there"
