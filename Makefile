# `make help` lists the targets. Needs only make, a shell and Debian: `make deps` installs the rest.

GO = $(shell packaging/go.sh)
export GOFLAGS ?= -buildvcs=false
# Debian's Go fetches newer toolchains only if told to.
export GOTOOLCHAIN ?= auto
# For splice/machine, which is C for tests: the same compiler as for bpf/. The linter of prose has parsers in C++.
export CC = clang-19
export CXX = clang++-19

# The maximum size of bin/baton, in bytes.
LARGEST = 30000000

.DEFAULT_GOAL := help
.NOTPARALLEL: # prerequisites are in order: dependencies first
.PHONY: help deps generate dashboards schemas reference build package demo recording test rings check lint docs kernels bench

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' $(MAKEFILE_LIST) | expand -t 20

deps: ## install what is missing, from Debian's archive (root)
	@packaging/deps.sh

generate: ## compile bpf/ with clang-19, write the Go bindings in datapath/ and the tables of openflow/
	$(GO) generate ./datapath/... ./openflow

dashboards: ## write packaging/grafana/ (Grafana's dashboards)
	$(GO) run ./packaging/dashboards packaging/grafana

schemas: build ## write packaging/schema/ (JSON Schemas of the configurations)
	for part in router relay anycast forwarder balance purge; do bin/baton $$part schema > packaging/schema/$$part.schema.json || exit; done
	for part in nameserver controller policy; do bin/baton-cdn $$part schema > packaging/schema/$$part.schema.json || exit; done

reference: ## write docs/reference/ (keys, metrics, verdicts and commands)
	$(GO) run ./packaging/reference docs/reference
	$(GO) test ./cmd/baton ./cmd/baton-cdn ./cmd/baton-lab -run '^TestReference$$' -update

build: ## bin/baton, bin/baton-cdn and bin/baton-lab (needs only Go)
	@GO=$(GO) packaging/build.sh bin baton baton-cdn baton-lab
	@size=$$(stat -c %s bin/baton); [ $$size -le $(LARGEST) ] || \
		{ echo "bin/baton has $$size bytes, $(LARGEST) at most: go tool nm -size -sort size says what of" >&2; exit 1; }

package: ## dist/: deb and rpm for amd64 and arm64, images, bill of materials, licences, checksums
	@GO=$(GO) packaging/package.sh

demo: deps build ## real clients and servers in namespaces: results, times, byte-exact checks (root)
	bin/baton-lab demo

recording: deps build ## docs/demo.svg, docs/demo.cast and docs/results/demo.txt: the demo, recorded (root)
	@packaging/python.sh recording
	$(GO) run ./packaging/recording docs/demo.cast docs/demo.svg docs/results/demo.txt

test: ## dependencies, build, lint and all rings of tests (root for rings 3 and 4)
	@packaging/deps.sh || [ "$$(id -u)" != 0 ]
	@$(MAKE) --no-print-directory build lint rings

# Not a line of test: make expands all lines of a recipe before the first, when Go may be missing still.
rings:
	@GO=$(GO) $(GO) run ./packaging/rings

check: ## quick checks while editing: build, lint, and tests without root or network; PART=router: of a part, with its kernel programs (root)
	@if [ -n "$(PART)" ]; then BATON_PART=$(PART) BATON_RINGS=check $(MAKE) --no-print-directory lint rings; \
		else BATON_RINGS=check $(MAKE) --no-print-directory build lint rings; fi

lint: ## gofmt, go vet, staticcheck, clang-format, prose, length of files, counters
	@GO=$(GO) packaging/lint.sh

docs: ## the documentation as a site with search, in bin/site; fails with a broken link (needs python3-venv)
	@packaging/docs.sh

kernels: deps build ## the matrix of kernels, in virtual machines: hours, goes on where it ended; writes docs/kernels.md (root)
	$(GO) test ./packaging/kernels -run '^TestKernelMatrix$$' -count=1 -timeout 24h -v -update

bench: deps build ## compare Baton with direct, HAProxy, nginx and a redirect, in one run (root)
	bin/baton-lab experiment run handoff
	$(GO) test ./datapath/router -run '^$$' -bench 'Flows|Translate' -benchtime 20000x
