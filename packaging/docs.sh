#!/bin/sh
# Builds the documentation as a site in bin/site, from README.md, docs/ and what they link to. Fails if a link or an anchor leads nowhere, or a page
# is not in the navigation (packaging/site/mkdocs.yml).
set -eu
cd "$(dirname "$0")/.."
packaging/python.sh docs
python3 packaging/site/stage.py bin/site-source
# Not with --quiet: MkDocs then counts no warnings, and --strict does nothing. MkDocs' notice about its next version is not ours to answer.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
NO_MKDOCS_2_WARNING=1 bin/docs/bin/python -m mkdocs build --strict --clean -f packaging/site/mkdocs.yml >"$log" 2>&1 || {
	grep -vE '^INFO' "$log" >&2
	exit 1
}
echo "docs: bin/site is complete (python3 -m http.server -d bin/site shows it)"
