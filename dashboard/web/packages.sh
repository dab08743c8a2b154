#!/bin/sh
# Installs the packages that the lock file names, from npm, unless they are there. It runs none of their scripts.
set -eu
cd "$(dirname "$0")"
if ! cmp -s package-lock.json node_modules/installed-lock.json; then
	npm ci --ignore-scripts --no-audit --no-fund --silent
	cp package-lock.json node_modules/installed-lock.json
fi
