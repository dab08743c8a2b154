#!/bin/sh
# Checks the prose of the documents and of the program's own texts (help, errors,
# logs) with Vale and the vocabulary in packaging/vale. What experiments write is
# left out: reports in docs/results are drawn from it. What Vale finds in comments
# is counted, and compared with packaging/counters/bounds. GO is the go command.
set -u
cd "$(dirname "$0")/.." || exit 1
GO=${GO:-$(packaging/go.sh)} || exit 1
files() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do [ ! -e "$f" ] || echo "$f"; done; }
# Vale has parsers in C. Its own texts are not wanted: a finding is a line with a place.
vale() { CGO_ENABLED=1 "$GO" run github.com/vale-cli/vale/v3/cmd/vale@v3.21.0 --config packaging/vale/vale.ini --output line "$@" 2>&1; }
# places turns the names of the texts into those of their sources.
places() { sed -n "s,^bin/prose/[a-z]*/\(.*\)\.\(txt\|comment\):,\1:,; /:Baton\.[A-Za-z]*:/p"; }
failed=

rm -rf bin/prose
go_files=$(files '*.go' | grep -v '_bpfe[lb]\.go$')
# shellcheck disable=SC2046,SC2086
{
	"$GO" run ./packaging/prose bin/prose/texts $(echo "$go_files" | grep -vE '_test\.go$|^experiments/|^examples/') &&
		"$GO" run ./packaging/prose -comments bin/prose/comments $go_files $(files '*.c' '*.h' | grep -v '^bpf/include/')
} || exit 1

found=$(vale packaging/vale/wrong.md packaging/vale/wrong.comment)
for rule in packaging/vale/Baton/*.yml; do
	rule=$(basename "$rule" .yml)
	echo "$found" | grep -q "Baton.$rule:" || {
		echo "prose: the rule $rule finds nothing in packaging/vale/wrong.md and wrong.comment: $found" >&2
		exit 1
	}
done

# shellcheck disable=SC2046
found=$(vale bin/prose/texts \
	$(files README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md 'docs/*.md' 'examples/*.md' |
		grep -v '^docs/results/')) || {
	echo "$found" | places | sed 's/:Baton\.\([A-Za-z]*\):/: \1: /' >&2
	echo "$found" | grep -q ':Baton\.' || echo "$found" >&2
	failed=1
}

found=$(vale bin/prose/comments)
echo "$found" | places >bin/prose/found
[ -s bin/prose/found ] || [ -z "$found" ] || {
	echo "$found" >&2
	exit 1
}
"$GO" run ./packaging/counters -findings bin/prose/found || failed=1
[ -z "$failed" ]
