# Every target is a word of this list: `make help` prints it.
# Needs nothing but make, a shell and Debian: `make deps` brings the rest.

GO = $(shell packaging/go.sh)
export GOFLAGS ?= -buildvcs=false
# Debian's Go does not fetch newer toolchains unless it is told to.
export GOTOOLCHAIN ?= auto
# splice/machine is C, for tests: the compiler of bpf/ compiles it.
export CC = clang-19

# Of bin/baton, in bytes. grpcnotrace leaves gRPC's pages of traces out: their templates would have the linker keep every method of every type.
LARGEST = 30000000

.DEFAULT_GOAL := help
.PHONY: help deps generate build demo test check lint bench

help: ## what can be made
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' $(MAKEFILE_LIST) | expand -t 20

deps: ## install what is missing, from Debian's archive (root)
	@packaging/deps.sh

generate: ## compile bpf/ with clang-19, write the Go bindings in datapath/ and the tables of openflow/
	$(GO) generate ./datapath/... ./openflow

build: ## bin/baton and bin/baton-lab (needs Go alone)
	CGO_ENABLED=0 $(GO) build -trimpath -tags grpcnotrace -ldflags '-s -w' -o bin/ ./cmd/baton ./cmd/baton-lab
	@size=$$(stat -c %s bin/baton); [ $$size -le $(LARGEST) ] || \
		{ echo "bin/baton has $$size bytes, $(LARGEST) at most: go tool nm -size -sort size says what of" >&2; exit 1; }

demo: deps build ## real clients and servers in namespaces: who answered, how fast, byte for byte (root)
	bin/baton-lab demo

test: ## dependencies, build, lint and all rings of tests (root for rings 3 and 4)
	@packaging/deps.sh || [ "$$(id -u)" != 0 ]
	@$(MAKE) --no-print-directory build lint
	@GO=$(GO) $(GO) run ./packaging/rings

check: ## what one runs while editing: build, lint, and the tests that need neither root nor a network
	@$(MAKE) --no-print-directory build lint
	@GO=$(GO) BATON_RINGS=check $(GO) run ./packaging/rings

lint: ## gofmt, go vet, staticcheck, clang-format, length of files
	@GO=$(GO) packaging/lint.sh

bench: deps build ## Baton beside direct, HAProxy, nginx and a redirect, in one run (root)
	bin/baton-lab experiment run handoff
	$(GO) test ./datapath/router -run '^$$' -bench 'Flows|Translate' -benchtime 20000x
