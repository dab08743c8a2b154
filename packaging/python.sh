#!/bin/sh
# Brings the Python packages that tests want into virtual environments of this
# folder, each package pinned by its hash: bin/python for os-ken, bin/faucet
# for Faucet, which wants another os-ken. Idempotent, and silent when they are
# there. Needs no root, but Debian's python3-venv, and for Faucet python3-dev.
set -eu
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log" "$log.tools"' EXIT
# Faucet has a module in C.
command -v gcc >/dev/null || export CC=clang-19 LDSHARED='clang-19 -shared'

# What is not distributed as a wheel is built by the tools that the list pins.
install() {
	python3 -m venv "$1" || return
	grep -E '^(setuptools|wheel|pbr)==' "$2" >"$log.tools"
	for list in "$log.tools" "$2"; do
		"$1/bin/python" -m pip install --no-deps --require-hashes --no-build-isolation -r "$list" || return
	done
}

failed=
for name in python faucet; do
	wanted=packaging/$name-packages.txt
	! cmp -s "$wanted" "bin/$name/packages.txt" || continue
	rm -rf "bin/$name"
	if install "bin/$name" "$wanted" >"$log" 2>&1; then
		cp "$wanted" "bin/$name/packages.txt"
		continue
	fi
	tail -n 3 "$log" >&2
	echo "python: $wanted could not be installed in bin/$name: tests that want it will skip" >&2
	rm -rf "bin/$name"
	failed=1
done
[ -z "$failed" ]
