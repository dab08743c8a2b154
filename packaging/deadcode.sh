#!/bin/sh
# Refuses functions that no program reaches: nothing calls them, or only tests do. Exceptions, each with its reason, are
# in packaging/tested-only. GO is the go command.
set -u
cd "$(dirname "$0")/.." || exit 1
GO=${GO:-$(packaging/go.sh)} || exit 1
found=$("$GO" run golang.org/x/tools/cmd/deadcode@v0.50.0 ./cmd/...) || exit 1

# A line is "path:line:column: unreachable func: name".
printf '%s\n' "$found" | awk -v list=packaging/tested-only '
BEGIN {
	while ((getline line < list) > 0) {
		if (line ~ /^#/ || line == "")
			continue
		at = index(line, ": ")
		if (at == 0 || at + 2 > length(line)) {
			print list ": without a reason: " line
			failed = 1
			continue
		}
		needless[substr(line, 1, at - 1)] = 1
	}
	for (name in needless)
		excepted[name] = 1
}
NF {
	path = $1
	sub(/:.*/, "", path)
	known = 0
	for (name = path " " $NF; name != ""; ) {
		if (name in excepted) {
			known = 1
			delete needless[name]
		}
		if (name ~ / /)
			name = path
		else if (!sub(/[^\/]*\/?$/, "", name))
			break
	}
	if (!known) {
		print path ": " $NF " is called by no program: delete it, or give a reason in " list
		failed = 1
	}
}
END {
	for (name in needless) {
		print list ": not needed any more: " name
		failed = 1
	}
	exit failed
}' >&2
