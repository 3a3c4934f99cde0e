# `make` lists the targets. They need Go, and what they say; `make test` brings its databases itself.

GO ?= go
# What test-race, bench and cover look at (those of the module of tests as ./test/...), and further flags of `go test`, e.g. make test TESTFLAGS='-run Election -count 10'
PACKAGES ?= ./...
TESTFLAGS ?=
# One way to compile everything, and one that has the same result in each checkout: what one target or test has compiled
# is in the cache for the others.
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) -trimpath)
export FUZZTIME ?= 1m
export FUZZJOBS ?= 1
SOAKTIME ?= 1h
KILLS ?= 40
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
databases: ## make sure that MariaDB, MySQL, Redis and ZooKeeper are there (test and the like do it themselves)
	@scripts/install-databases
	@$(GO) build -C test -o ../$(withdb) ./withdb

.PHONY: prometheus
prometheus: ## make sure that Prometheus is there, for the tests of metrics (test and the like do it themselves)
	@scripts/install-prometheus

.PHONY: browser
browser: ## make sure that Chromium is there, for the tests of the page (test does it itself)
	@scripts/install-chromium

.PHONY: screenshots
screenshots: browser ## make the pictures of docs/page.md
	@$(GO) test -C test ./page -count 1 -run '^TestPictures$$' -args -pictures=$(CURDIR)/docs/pictures

.PHONY: vet
vet: ## go vet, all modules (test does it)
	@scripts/vet

.PHONY: test
# As the image is built: otherwise most packages would be compiled twice, with C and without.
test: export CGO_ENABLED = 0
test: ## vet and test everything, on MariaDB (two versions), MySQL, Redis and ZooKeeper, in minutes
	@$(MAKE) -s -j2 databases prometheus browser vet && $(withdb) -- scripts/test $(TESTFLAGS)

# The race detector needs a C compiler; without one, Go has cgo switched off. SQLite itself, C translated to Go, is
# not instrumented: its tests would take almost three times as long, for code that is not ours.
norace = $(error the race detector needs a C compiler: install gcc or clang)
withrace = $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race -gcflags=modernc.org/sqlite/lib=-race=false,$(norace))

# In the environment, for what tests build: a worker without these flags would have everything compiled once more.
.PHONY: test-race
test-race: export GOFLAGS += $(withrace)
test-race: databases prometheus ## test PACKAGES (all) with the race detector, which takes two or three times as long
	@$(withdb) -- env PACKAGES="$(PACKAGES)" scripts/test $(TESTFLAGS)

# Each step runs, whatever the others say.
.PHONY: test-long
test-long: ## all of everything, which takes hours: before a release, and each night
	@$(MAKE) -s -k test-rounds redis zookeeper postgres lint model simulate fuzz torture deployments soak

.PHONY: test-rounds
test-rounds: ## test-race with CRONLEASE_ROUNDS times (default 10) as many kills, seeds and the like
	@CRONLEASE_ROUNDS=$${CRONLEASE_ROUNDS:-10} $(MAKE) -s test-race

# How long make torture goes on, and on which kinds of database. With SEED it begins at that seed.
TORTURETIME ?= 1h
DEPLOYTIME ?= 1h
# What torture and deployments happen on, such as ON=redis,zookeeper; empty: all kinds that they have.
ON ?=
torture = $(GO) test -C test ./torture -count 1 -run '^TestTorture$$' -v -parallel 16 -timeout 0 -args $(if $(ON),-torture.on=$(ON)) -torture.seed=$(SEED)

.PHONY: torture
torture: databases ## break processes, networks and databases under real workers for TORTURETIME (1h), and check all they did
	@$(torture) -torture.for=$(TORTURETIME)

# Which servers make redis tests on; all: redis-new valkey redis-old.
REDIS ?=

.PHONY: redis
redis: databases ## test redisstore, and the worker on it, on a newer Redis, Valkey and a Redis older than 6.2: minutes; REDIS=valkey for one
	@scripts/install-databases redis-versions
	@scripts/test-redis $(REDIS)

.PHONY: zookeeper
zookeeper: databases ## test zkstore, and the worker on it, on a newer ZooKeeper: minutes
	@scripts/install-databases zookeeper-versions
	@scripts/test-zookeeper

.PHONY: postgres
postgres: databases ## test postgresstore on a newer PostgreSQL: a minute
	@scripts/install-databases postgres-versions
	@CRONLEASE_POSTGRES="$${XDG_CACHE_HOME:-$$HOME/.cache}/cronlease/postgres-new/postgres" $(GO) test -count=1 $(TESTFLAGS) ./store/postgresstore

# Several faults at a time, each with a group, a database and replicas of its own; GAMEDAY names some of them.
GAMEDAY ?= .

.PHONY: gameday
gameday: databases prometheus ## inject what wakes operators, one by one, and write what alerts, probes, page and doctor said into docs/operating.md: 20 minutes
	@$(GO) test -C test ./gameday -count 1 -run '^TestGameday$$/^faults$$/$(GAMEDAY)' -v -parallel 7 -timeout 0 -args -gameday.full -gameday.write=$(CURDIR)/docs/operating.md

.PHONY: simulate
simulate: ## simulate CRONLEASE_ROUNDS times (default 300: years) as much as test does; CRONLEASE_SEED=n replays a bubble
	@CRONLEASE_ROUNDS=$${CRONLEASE_ROUNDS:-300} $(GO) test -count=1 -timeout 0 -run '^TestSimulation' $(TESTFLAGS) \
		./internal/simulation ./election ./locks

.PHONY: year
year: ## live through CRONLEASE_ROUNDS (default 2) years of weekly deployments, with other jobs each time, in a bubble; test lives through three weeks
	@CRONLEASE_ROUNDS=$${CRONLEASE_ROUNDS:-2} $(GO) test -count=1 -timeout 0 -run '^TestYear$$' $(TESTFLAGS) ./scheduler

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (default 1m), FUZZJOBS (1) at a time; FUZZ=cron for those of that name
	@scripts/fuzz $(FUZZ)

.PHONY: deployments
deployments: databases ## replace real workers by versions with other jobs, 20 times in DEPLOYTIME (1h), and account for every tick; ON=redis
	@$(withdb) -- $(GO) test -C test ./deploy -count 1 -v -timeout 0 -args -deploy.on=$(or $(ON),all) -deploy.for=$(DEPLOYTIME) -deploy.times=20

.PHONY: soak
soak: databases ## three workers with 200 jobs on each database for SOAKTIME (default 1h): nothing may grow; SEED=n to repeat
	@$(GO) build -C test -o ../$(soak) ./soak
	@$(withdb) -- $(soak) -time $(SOAKTIME) -seed $(SEED)

.PHONY: bench
bench: databases ## run the benchmarks of PACKAGES on both databases
	@$(withdb) -- env PACKAGES="$(PACKAGES)" scripts/test -p 1 -timeout 0 -run '^$$' -bench . -benchmem $(TESTFLAGS)

.PHONY: performance
performance: databases ## run the benchmarks of docs/performance.md for ten minutes, and write it; KILLS=n leaders are killed on each server
	@$(withdb) -- env KILLS=$(KILLS) scripts/performance

.PHONY: flaws
flaws: databases ## leave out each condition and each write of STORE's statements in turn (mysqlstore, sqlitestore, redisstore): a case of the suites has to fail; FLAWS=ledger.claim for some
	@$(withdb) -- $(GO) test ./store/$(or $(STORE),mysqlstore) -count 1 -timeout 0 -run '^TestFlaws$$' -v -args -flaws '$(or $(FLAWS),.)'

.PHONY: cover
cover: databases ## test PACKAGES of the library and print how much of each function the tests reach (all: cover.out)
	@$(withdb) -- $(GO) test -timeout 20m -coverprofile=cover.out -coverpkg=./... $(TESTFLAGS) $(PACKAGES)
	@$(GO) tool cover -func=cover.out

.PHONY: model
model: ## search the models of docs/model with Spin: each must hold, and fail without each of its rules; MODEL_TIME=90 for a share
	@scripts/install-spin
	@scripts/model

.PHONY: cross
cross: ## build everything, tests included, for the other systems that it has to build for
	@for os in darwin windows freebsd; do for module in . test; do \
		(cd $$module && export CGO_ENABLED=0 GOOS=$$os && $(GO) build ./... && $(GO) vet ./...) || exit 1; done; done

.PHONY: lint
lint: ## run the linters of .golangci.yml (the first run builds them, which takes minutes)
	@scripts/words
	@$(GO) tool -modfile=tools/go.mod golangci-lint run
	@cd test && $(GO) tool -modfile=../tools/go.mod golangci-lint run

PACKAGE ?= internal/keeper

.PHONY: mutation
mutation: ## change the conditions of PACKAGE (internal/keeper) one by one, and print the changes that no test noticed: half an hour
	@scripts/mutation $(PACKAGE)

.PHONY: vuln
vuln: ## ask govulncheck for known vulnerabilities of all modules
	@for module in $$(scripts/modules); do \
		echo "vuln: module $$module"; (cd $$module && $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.8.0 -test ./...) || exit 1; done

.PHONY: sbom
sbom: ## write the bill of materials of the worker, as CycloneDX, to bin/worker.cdx.json
	@$(GO) build -o bin/worker ./cmd/worker
	@$(GO) run ./internal/cmd/sbom bin/worker >bin/worker.cdx.json

.PHONY: clean
clean: ## remove what the other targets made in this folder
	@rm -rf bin cover.out
