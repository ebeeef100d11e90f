# `make` or `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash

BIN := bin/toolsearch
FUZZTIME ?= 10s

.PHONY: help demo build test race lint fmt verify fuzz bench chaos clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-zA-Z\/_-]*:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## show the whole thing working, on this machine
	go run ./cmd/toolsearch demo

build: ## the static binary, bin/toolsearch
	CGO_ENABLED=0 go build -trimpath -o $(BIN) ./cmd/toolsearch

test: ## the tests
	go test ./...

race: ## the tests under the race detector
	go test -race -timeout 15m ./...

lint: ## vet and the pinned linter
	go vet ./...
	go tool staticcheck ./...

fmt: ## format the code
	gofmt -w $$(git ls-files '*.go')

verify: ## everything that continuous integration checks
	bash .ci/run

fuzz: ## every fuzz target for FUZZTIME (10s) each
	@set -e; for pkg in $$(go list ./...); do \
	  for f in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$pkg $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$pkg; \
	  done; done

bench: build ## load over the bus beside a bare echo, then the Go benchmarks
	$(BIN) bench
	go test -run '^$$' -bench . -benchtime 1s ./...

chaos: build ## the long crash test: workers, then NATS nodes, killed under load
	TOOLSEARCH_CHAOS=long go test -count 1 -timeout 30m -run Chaos -v ./cmd/toolsearch
	TOOLSEARCH_CHAOS=long go test -count 1 -timeout 10m -run ManyQueued -v ./worker/durable

clean: ## remove what was built
	rm -rf bin
