#!/bin/sh
# Makes the image of baton-kubernetes, the controller for Kubernetes, beside those of packaging/package.sh: FOLDER/baton-kubernetes_VERSION_oci.tar.
# It is a module of its own, in kubernetes/.
#
#   ARCHES="amd64 arm64" packaging/kubernetes.sh [FOLDER]
set -eu
cd "$(dirname "$0")/.."
dist=$(mkdir -p "${1:-dist}" && cd "${1:-dist}" && pwd)
GO=${GO:-$(packaging/go.sh)}
VERSION=$(packaging/version.sh)
SOURCE_DATE_EPOCH=$(packaging/version.sh --date)
export LC_ALL=C TZ=UTC GOFLAGS="${GOFLAGS:--buildvcs=false}"
umask 022

. packaging/archive.sh

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$GO" build -C packaging/tools -o "$made/tools/" ./image
archives=
for arch in ${ARCHES:-amd64 arm64}; do
	mkdir -p "$made/$arch/usr/bin" "$made/$arch/tmp"
	chmod 1777 "$made/$arch/tmp"
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch "$GO" build -C kubernetes -trimpath -ldflags "-s -w -buildid= -X main.version=$VERSION" \
		-o "$made/$arch/usr/bin/" ./cmd/baton-kubernetes
	archive "$made/$arch.tar" "$made/$arch"
	archives="$archives $arch=$made/$arch.tar"
done
# shellcheck disable=SC2086
"$made/tools/image" -tag "baton-kubernetes:$(echo "$VERSION" | tr '~+' '--')" -date "$SOURCE_DATE_EPOCH" -o "$made/image" $archives
archive "$dist/baton-kubernetes_${VERSION}_oci.tar" "$made/image"
echo "kubernetes: $dist/baton-kubernetes_${VERSION}_oci.tar"
