#!/bin/sh
# Prints the path of a Go command that can build this module, or fails and says
# what to do. Prefers the go on the PATH if it is new enough or (from 1.21 on)
# can fetch the right version itself. Otherwise, as with Debian 12's Go 1.19, it
# fetches go.mod's toolchain as a checksummed module from the module proxy.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
need=$(sed -n 's/^go //p' "$root/go.mod")
PATH=$PATH:/usr/local/go/bin
command -v go >/dev/null || {
	echo "go is missing: run packaging/deps.sh" >&2
	exit 1
}
have=$(cd / && GOTOOLCHAIN=local go env GOVERSION | sed 's/^go//; s/[^0-9.].*//')
newer() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n1)" = "$2" ]; } # $1 >= $2
if newer "$have" "$need" || newer "$have" 1.21; then
	command -v go
	exit 0
fi

module=golang.org/toolchain
version=v0.0.1-go$need.$(go env GOOS)-$(go env GOARCH)
dir=$(go env GOMODCACHE)/$module@$version
if [ ! -x "$dir/bin/go" ]; then
	echo "go $have is too old: fetching go $need through the module proxy" >&2
	(cd / && GOFLAGS=-mod=mod go mod download "$module@$version") >&2
	# A module's files are stored read-only and without the execute bit.
	chmod u+w "$dir/bin" "$dir/bin/go" "$dir/bin/gofmt"
	find "$dir/bin" "$dir/pkg/tool" -type f -exec chmod a+x {} +
fi
echo "$dir/bin/go"
