#!/bin/sh
# Checks the prose of the documents and of the program's own texts (help, errors,
# logs) with Vale and the vocabulary in packaging/vale. What experiments write is
# left out: reports in docs/results are drawn from it. GO is the go command.
set -u
cd "$(dirname "$0")/.." || exit 1
GO=${GO:-$(packaging/go.sh)} || exit 1
files() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do [ ! -e "$f" ] || echo "$f"; done; }
# Vale has parsers in C. Its own texts are not wanted: a finding is a line with a place.
vale() { CGO_ENABLED=1 "$GO" run github.com/vale-cli/vale/v3/cmd/vale@v3.21.0 --config packaging/vale/vale.ini --output line "$@" 2>&1; }

texts=bin/prose
rm -rf "$texts"
# shellcheck disable=SC2046
"$GO" run ./packaging/prose "$texts" $(files '*.go' | grep -vE '_test\.go$|_bpfe[lb]\.go$|^experiments/|^examples/') || exit 1

found=$(vale packaging/vale/wrong.md)
for rule in packaging/vale/Baton/*.yml; do
	rule=$(basename "$rule" .yml)
	echo "$found" | grep -q "Baton.$rule:" || {
		echo "prose: the rule $rule finds nothing in packaging/vale/wrong.md: $found" >&2
		exit 1
	}
done

# shellcheck disable=SC2046
found=$(vale $(files README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md 'docs/*.md' 'examples/*.md' | grep -v '^docs/results/') "$texts") && exit 0
echo "$found" | sed -n "s,^$texts/\(.*\)\.txt:,\1:,; s/:Baton\.\([A-Za-z]*\):/: \1: /p" >&2
echo "$found" | grep -q ':Baton\.' || echo "$found" >&2
exit 1
