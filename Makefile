# Everything that people and CI run. `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VERSION ?= $(shell scripts/version 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
# Linters come through the Go module proxy, pinned here, and leave go.mod alone.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0
ERRCHECK := github.com/kisielk/errcheck@v1.9.0
MISSPELL := github.com/golangci/misspell/cmd/misspell@v0.7.0
SLOGLINT := go-simpler.org/sloglint/cmd/sloglint@v0.12.0
# So do the tools of releases. nfpm above v2.45 needs modules that not every proxy serves.
NFPM := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0
CYCLONEDX := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
DIST ?= dist
ARCHS ?= amd64 arm64
FUZZTIME ?= 30s
BENCH ?= .
COUNT ?= 6
MICRO := ./event ./source ./checkpoint/... ./sink/... ./internal/shard
# The tests that have a long form.
SOAK ?= TransactionsOfAnyLength|TransactionThatStaysOpen|WhereIDsComeFrom|StatementThatStalls

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the static binary bin/bridge
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/bridge ./cmd/bridge

.PHONY: demo
demo: build ## See events within seconds: no service, no configuration
	bin/bridge demo

# On real servers: EXAMPLE_SOURCE_URL and EXAMPLE_SINK_URL, see examples/apollo/README.md.
example-%: build ## Play an example, as in make example-apollo; see examples
	@CGO_ENABLED=0 go run -trimpath ./examples/$* $(ARGS)

.PHONY: test
test: ## Test all packages, on real servers that it fetches: 4 minutes
	scripts/test-deps compile
	scripts/test

.PHONY: test-all
test-all: ## Run all tests, in full size: 20 minutes
	scripts/test-deps compile
	scripts/test --all

.PHONY: test-rest
test-rest: ## Run what test-all has beyond test
	scripts/test-deps
	scripts/test --rest

.PHONY: test-databases
test-databases: ## Test on six database servers; fetches 630 MB: 20 minutes
	scripts/test-deps all
	scripts/test --databases

.PHONY: test-fast
test-fast: ## Test without services and network, with the race detector
	go test -race ./... $$(go list -m)/client/...

.PHONY: soak
soak: ## Run the long form of the tests that have one: 30 minutes
	scripts/test-deps
	BRIDGE_TEST_REAL=1 BRIDGE_TEST_SOAK=1 go test -v -timeout 2h -run '$(SOAK)' ./tests/acceptance

.PHONY: torture
torture: ## Harm bridge under load, print the results; see ARGS=--help
	@scripts/test-deps
	@scripts/torture $(ARGS)

.PHONY: module
# PATH on the command line is the module's path here, so the shell has to find its commands without it.
module: ## Give the module another path: make module PATH=example.com/team/bridge
	@NEW='$(PATH)' /usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin /bin/bash -c 'exec scripts/module "$$NEW"'

.PHONY: mistakes
mistakes: ## Show that tests find small mistakes: 30 minutes
	@scripts/test-deps
	@BRIDGE_TEST_MISTAKES=1 CGO_ENABLED=0 go test -trimpath -count=1 -v -timeout 4h -run '^TestMistakes$$' ./tests/faulty $(ARGS)

.PHONY: figures
figures: ## Measure the binary: size, start to first event, idle memory
	@scripts/test-deps > /dev/null
	@BRIDGE_TEST_REAL=1 BRIDGE_TEST_FIGURES=1 go test -count=1 -v -run '^TestFigures$$' ./tests/acceptance | grep -vE '^(===|---|PASS|ok)'

.PHONY: screenshots
screenshots: ## Take pictures of the page in dist/page, and those of docs/page
	@scripts/test-deps
	@mkdir -p dist/page
	@CI=true BRIDGE_TEST_REAL=1 BRIDGE_TEST_SCREENSHOTS=$(CURDIR)/dist/page go test -count=1 -run '^TestScreenshots$$' ./internal/httpapi/pagetest
	@cd dist/page && cp desk-1280.png deletes-1280.png phone-360.png wall-2560.png $(CURDIR)/docs/page

# BENCH chooses measurements as -bench does, ROUNDS is how often each is made, BEFORE a former program to measure in turns with this one.
ROUNDS ?= 1
export ROUNDS BEFORE BENCH_JDBC_CONNECTOR
.PHONY: bench
bench: ## Measure on real servers: half an hour; ARGS=-test.short 5 minutes
	@scripts/test-deps
	@scripts/bench Bridge '$(BENCH)' $(ARGS)

.PHONY: bench-peers
bench-peers: ## Measure beside Debezium, Kafka Connect: 20 minutes a round
	@scripts/test-deps
	@scripts/peers
	@scripts/bench Peers '$(BENCH)' -noise 10 $(ARGS)

.PHONY: bench-large
bench-large: ## Measure up to 100 million rows: 20 minutes, 12 GB of disk
	@scripts/test-deps
	@scripts/bench Large '$(BENCH)' $(ARGS)

.PHONY: bench-micro
bench-micro: ## Run Go benchmarks for benchstat: COUNT times those of BENCH
	@go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(MICRO)

.PHONY: lint
lint: ## Check formatting, linters, go.mod and the rules of the house
	scripts/lint $(STATICCHECK) $(ERRCHECK) $(MISSPELL) $(SLOGLINT)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (30s)
	scripts/fuzz $(FUZZTIME)

.PHONY: release
release: ## Make dist/: binaries, archives, deb, rpm, SBOM, checksums
	@scripts/release $(NFPM) $(CYCLONEDX) '$(DIST)' $(ARCHS)

.PHONY: release-check
release-check: ## Show that two releases are byte-identical: 10 minutes
	@scripts/release-check $(NFPM) $(CYCLONEDX) $(ARCHS)

# The engine builds with the Dockerfile: docker, podman or buildah. SOURCE is the address of the repository, for a label.
ENGINE ?= docker
IMAGE ?= bridge
SOURCE ?= unknown
.PHONY: image
image: ## Build the container image IMAGE with ENGINE (docker)
	$(ENGINE) build --build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD) --build-arg SOURCE='$(SOURCE)' \
	  --build-arg CREATED=$$(date -u -d @$$(git log -1 --format=%ct) +%Y-%m-%dT%H:%M:%SZ) -t $(IMAGE) .

.PHONY: vuln
vuln: ## Look for known vulnerabilities, in a database online
	@scripts/vuln $(GOVULNCHECK)

.PHONY: clean
clean: ## Remove what was built and fetched
	rm -rf bin dist .cache
