#!/bin/sh
# Prints the version of this tree: that of the tag vX.Y.Z on the commit, else that of CHANGELOG.md's first heading with ~dev, the commit's time
# (so that packages of later commits are upgrades) and the commit; ".dirty" follows if files differ from the commit. Package managers sort
# 0.1.0~dev... before 0.1.0. With --date it prints the commit's time in seconds instead, for SOURCE_DATE_EPOCH.
set -eu
cd "$(dirname "$0")/.."
in_git() { [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ]; }
if [ "${1:-}" = --date ]; then
	if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
		echo "$SOURCE_DATE_EPOCH"
	elif in_git; then
		git log -1 --format=%ct
	else
		stat -c %Y CHANGELOG.md
	fi
	exit 0
fi
if [ -n "${BATON_VERSION:-}" ]; then
	echo "$BATON_VERSION"
	exit 0
fi
next=$(sed -n 's/^## \([0-9][0-9.]*\).*/\1/p' CHANGELOG.md | head -n1)
if ! in_git; then
	echo "$next~dev"
	exit 0
fi
dirty=
[ -z "$(git status --porcelain --untracked-files=no)" ] || dirty=.dirty
tag=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null || true)
if [ -n "$tag" ] && [ -z "$dirty" ]; then
	echo "${tag#v}"
else
	echo "$next~dev.$(TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M%S --format=%cd).g$(git rev-parse --short=9 HEAD)$dirty"
fi
