#!/bin/sh
# Installs Python packages into virtual environments in this folder, each
# package pinned by its hash: bin/python for os-ken, bin/faucet for Faucet,
# which needs another version of os-ken, bin/quic for clients of HTTP/3,
# bin/docs for the site, bin/recording for `make recording`. Idempotent; prints nothing if they are there. Needs
# no root, but Debian's python3-venv, and python3-dev for Faucet.
#
#   packaging/python.sh         all but recording
#   packaging/python.sh docs    only those named
set -eu
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log" "$log.tools"' EXIT
# Faucet has a module in C.
command -v gcc >/dev/null || export CC=clang-19 LDSHARED='clang-19 -shared'

# Packages without a wheel are built by the tools that the list pins.
install() {
	python3 -m venv "$1" || return
	grep -E '^(setuptools|wheel|pbr)==' "$2" >"$log.tools" || true # none: wheels alone
	for list in "$log.tools" "$2"; do
		"$1/bin/python" -m pip install --no-deps --require-hashes --no-build-isolation -r "$list" || return
	done
}

failed=
for name in ${*:-python faucet quic docs}; do
	wanted=packaging/$name-packages.txt
	! cmp -s "$wanted" "bin/$name/packages.txt" || continue
	rm -rf "bin/$name"
	if install "bin/$name" "$wanted" >"$log" 2>&1; then
		cp "$wanted" "bin/$name/packages.txt"
		continue
	fi
	tail -n 3 "$log" >&2
	echo "python: $wanted could not be installed in bin/$name: what needs it will be skipped or fail" >&2
	rm -rf "bin/$name"
	failed=1
done
[ -z "$failed" ]
