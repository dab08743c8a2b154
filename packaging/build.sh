#!/bin/sh
# Builds programs of cmd/ as they are released; GOARCH and GOFLAGS are Go's own, TAGS adds build tags. The same commit gives the same bytes.
#
#   packaging/build.sh FOLDER PROGRAM...
set -eu
cd "$(dirname "$0")/.."
folder=$1
shift
# grpcnotrace omits gRPC's trace pages: their templates force the linker to keep every method of every type.
# These libraries are not fast paths, but for their system calls, and are smaller if nothing is inlined into their
# functions: 3.4 % of baton.
small=
for library in github.com/osrg/gobgp google.golang.org github.com/vishvananda github.com/prometheus github.com/spf13 \
	github.com/godbus github.com/google/nftables github.com/cilium; do small="$small -gcflags=$library/...=-l"; done
# shellcheck disable=SC2046,SC2086
CGO_ENABLED=0 GOOS=linux "${GO:-$(packaging/go.sh)}" build -trimpath -tags "grpcnotrace${TAGS:+,$TAGS}" $small \
	-ldflags "-s -w -buildid= -X main.version=$(packaging/version.sh)" -o "$folder/" $(printf './cmd/%s ' "$@")
