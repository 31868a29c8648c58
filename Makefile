# Everything that people and CI run. `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
# Linters come through the Go module proxy, pinned here, and leave go.mod alone.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0
FUZZTIME ?= 30s
BENCH ?= .
COUNT ?= 6
MICRO := ./event ./source ./checkpoint/... ./sink/... ./internal/pipeline ./internal/verify
# The tests that have a long form.
SOAK ?= WhateverHappensToATable|ALargeTable|ManyThatVanish|TransactionsOfAnyLength|DatabaseThatCrashes|TransactionThatStaysOpen|SegmentWriters|Strides|StatementThatStalls|AWrongClock

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the static binary bin/bridge
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/bridge ./cmd/bridge

.PHONY: demo
demo: build ## See events within seconds: no service, no configuration
	bin/bridge demo

.PHONY: test
test: ## Run all tests, those on real MariaDB, Kafka and NATS too; fetches these where it may
	scripts/test-deps
	scripts/test

.PHONY: test-fast
test-fast: ## Run the tests that need no service and no network, with the race detector
	go test -race ./...

.PHONY: soak
soak: ## Run the tests that have a long form: 300,000 changes of states, 200,000 commits, transactions of minutes; 45 minutes
	scripts/test-deps
	BRIDGE_TEST_REAL=1 BRIDGE_TEST_SOAK=1 go test -v -timeout 2h -run '$(SOAK)' ./internal/acceptance

.PHONY: torture
torture: ## Do every kind of harm to bridge under load and print what came of it; ARGS='--help' says what can be chosen
	@scripts/test-deps
	@scripts/torture $(ARGS)

.PHONY: figures
figures: ## Measure the static binary: size, start to first event, idle memory
	@scripts/test-deps > /dev/null
	@BRIDGE_TEST_REAL=1 BRIDGE_TEST_FIGURES=1 go test -count=1 -v -run '^TestFigures$$' ./internal/acceptance | grep -vE '^(===|---|PASS|ok)'

.PHONY: bench
# The load before anything is compiled, which is a load itself.
bench: export BRIDGE_TEST_BENCH_LOAD := $(shell cut -d' ' -f1 /proc/loadavg 2>/dev/null)
bench: ## Measure scan, publish, bridge, latency, idle cost and growth on real servers: under an hour; ARGS=--quick a minute, ARGS=--help says more
	@scripts/test-deps
	@go test -c -o bin/bench.test ./internal/bench
	@cd internal/bench && CI=true BRIDGE_TEST_REAL=1 BRIDGE_TEST_BENCH=1 ../../bin/bench.test -test.run '^TestBench$$' -test.timeout 2h $(ARGS)

.PHONY: bench-micro
bench-micro: ## Run the benchmarks that need no server, as benchstat reads them: COUNT (6) times those that match BENCH (all)
	@go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(MICRO)

.PHONY: lint
lint: ## Check formatting, go vet, staticcheck, go.mod and the house rules
	scripts/lint $(STATICCHECK)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (30s)
	scripts/fuzz $(FUZZTIME)

.PHONY: clean
clean: ## Remove what was built and fetched
	rm -rf bin .cache
