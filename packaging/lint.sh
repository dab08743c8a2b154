#!/bin/sh
# Checks the style of the files that git tracks or would track. Reports every
# fault, then fails. GO is the go command. With a part in BATON_PART: gofmt, go vet
# and staticcheck of its packages, the counters, clang-format, and the length of files.
set -u
cd "$(dirname "$0")/.." || exit 1
GO=${GO:-$(packaging/go.sh)} || exit 1
gofmt=$("$GO" env GOROOT)/bin/gofmt
failed=
fail() {
	echo "lint: $1" >&2
	failed=1
}
files() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do [ ! -e "$f" ] || echo "$f"; done; }

# Generated files are not checked.
go_files=$(files '*.go' | grep -v '_bpfe[lb]\.go$')
# shellcheck disable=SC2086
unformatted=$("$gofmt" -l $go_files)
[ -z "$unformatted" ] || fail "gofmt: $(echo $unformatted)"

packages=./...
part=${BATON_PART:-}
[ -z "$part" ] || packages=$("$GO" run ./packaging/rings packages) || exit 1
# kubernetes is a module of its own. That of its tests' API server, in kubernetes/apiserver, has one file, and takes
# minutes to compile.
if [ "$part" != kubernetes ]; then
	# shellcheck disable=SC2086
	"$GO" vet $packages || fail "go vet"
	# shellcheck disable=SC2086
	"$GO" run honnef.co/go/tools/cmd/staticcheck@v0.8.2 $packages || fail "staticcheck"
fi
if [ -z "$part" ] || [ "$part" = kubernetes ]; then
	"$GO" vet -C kubernetes ./... || fail "go vet in kubernetes"
	(cd kubernetes && "$GO" run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...) || fail "staticcheck in kubernetes"
fi
# Locks, in packages that have annotations. go vet runs a program, not a package: it is built into bin.
if [ -z "$part" ]; then
	checklocks=gvisor.dev/gvisor/tools/checklocks/cmd/checklocks@v0.0.0-20260905035102-160fafc42237
	# shellcheck disable=SC2086
	annotated=$(grep -l '^\s*// +checklocks' $go_files | grep -vE '_test\.go$|^packaging/' | xargs -n 1 dirname | sort -u)
	# shellcheck disable=SC2046
	GOBIN=$PWD/bin "$GO" install "$checklocks" &&
		"$GO" vet -vettool="$PWD/bin/checklocks" -inferred=false $(echo "$annotated" | sed 's,^,./,') ||
		fail "checklocks"
fi
"$GO" run ./packaging/counters || fail "counters (CONTRIBUTING.md says what they count)"

c_files=$(files 'bpf/*.c' 'bpf/*.h' | grep -v '^bpf/include/')
if command -v clang-format-19 >/dev/null; then
	for f in $c_files; do
		clang-format-19 --dry-run -Werror "$f" 2>/dev/null || fail "clang-format: $f (clang-format-19 -i fixes it)"
	done
else
	echo "lint: SKIP clang-format: clang-format-19 is not installed (make deps)"
	if [ "${CI:-}" = true ] || [ "${BATON_RINGS:-}" = all ]; then fail "clang-format is required here"; fi
fi

# The web page: TypeScript's compiler and Biome, by the lock file.
if [ -n "$part" ] && [ "$part" != dashboard ]; then
	: # another part
elif command -v npm >/dev/null; then
	dashboard/web/packages.sh || fail "npm ci in dashboard/web"
	npm --prefix dashboard/web run --silent lint || fail "dashboard/web (npm --prefix dashboard/web run format mends what it can)"
else
	echo "lint: SKIP the web page: npm is not installed (make deps)"
	if [ "${CI:-}" = true ] || [ "${BATON_RINGS:-}" = all ]; then fail "npm is required here"; fi
fi

# Prose: Vale is a Go program with parsers in C.
if [ -n "$part" ]; then
	: # of all parts: packaging/prose.sh
elif command -v "${CC:-cc}" >/dev/null; then
	packaging/prose.sh || fail "prose (the vocabulary is in packaging/vale)"
else
	echo "lint: SKIP prose: ${CC:-cc} is not installed (make deps)"
	if [ "${CI:-}" = true ] || [ "${BATON_RINGS:-}" = all ]; then fail "a C compiler is required here"; fi
fi

# A file over 500 lines needs a reason in packaging/long-files: "path: reason".
for f in $go_files $c_files $(files '*.sh' '*.ts' '*.tsx'); do
	lines=$(wc -l <"$f")
	if [ "$lines" -gt 500 ] && ! grep -q "^$f: ..*" packaging/long-files; then
		fail "$f has $lines lines (500 at most, or a reason in packaging/long-files)"
	fi
done
sed -n '/^#/d; s/^\([^:]*\):.*/\1/p' packaging/long-files | while read -r f; do
	[ -e "$f" ] && [ "$(wc -l <"$f")" -gt 500 ] || echo "$f"
done | { ! grep . >&2; } || fail "packaging/long-files names files that are gone or short"

GO=$GO packaging/deadcode.sh || fail "dead code (packaging/tested-only has exceptions)"

[ -z "$failed" ] || exit 1
echo "lint: clean"
