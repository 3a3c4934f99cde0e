# `make` lists the targets. They need Go, and what they say; `make test` brings its databases itself.

GO ?= go
# What bench and cover look at, and further flags of `go test`, e.g. make test TESTFLAGS='-run Election -count 10'
PACKAGES ?= ./...
TESTFLAGS ?=
export FUZZTIME ?= 1m
export FUZZJOBS ?= 1
SOAKTIME ?= 1h
SEED ?= 0

withdb := bin/withdb
soak := bin/soak

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The databases, and the program that starts and ends them. CRONLEASE_TEST_DSN=user:password@tcp(host:port)/ takes a
# running server instead.
.PHONY: databases
databases: ## make sure that MariaDB and MySQL are there (test and the like do it themselves)
	@scripts/install-databases
	@$(GO) build -o $(withdb) ./internal/cmd/withdb

.PHONY: test
test: databases ## vet and test everything, with the race detector, on MariaDB and MySQL, and torture-short
	@$(withdb) -- scripts/test -race $(TESTFLAGS)
	@$(GO) test -timeout 20m $(TESTFLAGS) ./internal/simulation # a year: the race detector leaves it weeks
	@[ -n "$(TESTFLAGS)" ] || $(MAKE) -s torture-short

.PHONY: test-fast
test-fast: databases ## the same without the race detector
	@$(withdb) -- scripts/test $(TESTFLAGS)

# How long make torture goes on, and on which kinds of database. With SEED it begins at that seed.
TORTURETIME ?= 1h
ON ?= mariadb,mariadb-pair,mysql,mysql-pair,galera,galera-all
torture = $(GO) test ./internal/torture -count 1 -run '^TestTorture$$' -v -parallel 16 -timeout 0 -args -torture.on=$(ON) -torture.seed=$(SEED)

.PHONY: torture
torture: databases ## break processes, networks and databases under real workers for TORTURETIME (1h), and check all they did
	@$(torture) -torture.for=$(TORTURETIME)

.PHONY: torture-short
torture-short: databases ## the same for five minutes; make test does it
	@$(torture) -torture.for=5m

.PHONY: simulate
simulate: ## simulate CRONLEASE_SIMULATE times (default 20) as much as test-fast does; CRONLEASE_SEED=n replays a bubble
	@CRONLEASE_SIMULATE=$${CRONLEASE_SIMULATE:-20} $(GO) test -count=1 -timeout 0 -run '^TestSimulation' $(TESTFLAGS) \
		./internal/simulation ./election ./locks

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (default 1m), FUZZJOBS (1) at a time; FUZZ=cron for those of that name
	@scripts/fuzz $(FUZZ)

.PHONY: soak
soak: databases ## three workers with 200 jobs on each database for SOAKTIME (default 1h): nothing may grow; SEED=n to repeat
	@$(GO) build -o $(soak) ./internal/cmd/soak
	@$(withdb) -- $(soak) -time $(SOAKTIME) -seed $(SEED)

.PHONY: bench
bench: databases ## run the benchmarks of PACKAGES on both databases
	@$(withdb) -- $(GO) test -run '^$$' -bench . -benchmem $(TESTFLAGS) $(PACKAGES)

.PHONY: cover
cover: databases ## test PACKAGES and print how much of each function the tests reach (all: cover.out)
	@$(withdb) -- $(GO) test -timeout 20m -coverprofile=cover.out -coverpkg=./... $(TESTFLAGS) $(PACKAGES)
	@$(GO) tool cover -func=cover.out

.PHONY: examples
examples: databases ## vet and test the examples that are modules of their own
	@set -e; modules=$$(find examples -name go.mod -exec dirname {} + | sort); \
	if [ -z "$$modules" ]; then echo "no module below examples/"; exit 0; fi; \
	MODULES="$$modules" $(withdb) -- scripts/test $(TESTFLAGS)

.PHONY: model
model: ## check the models of docs/model with Spin: each must hold, and fail without each of its rules
	@scripts/install-spin
	@scripts/model

.PHONY: lint
lint: ## run the linters of .golangci.yml (the first run builds them, which takes minutes)
	@$(GO) tool -modfile=tools/go.mod golangci-lint run

.PHONY: clean
clean: ## remove what the other targets made in this folder
	@rm -rf bin cover.out
