# Everything this project does has a verb here; `make help` lists them. Two of them are all that a new user needs:
# `make demo` and `make test`.

SHELL       := /bin/sh
GO          ?= go
VERSION     := $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null || echo dev)
# Without the parts of Google's Storage client that only its gRPC transport needs (xDS, Envoy's messages): we
# use JSON over HTTP, and they are a third of the task's binary.
TAGS        := disable_grpc_modules
BUILD_FLAGS := -tags $(TAGS) -ldflags '-s -w -X main.version=$(VERSION)'
BINARIES    := launcher task aggregator localemu
DEMO        := build/demo
DATA        ?= ../shared/data
FUZZ_TIME   ?= 20s
IMAGE_TOOL  ?= $(notdir $(firstword $(foreach t,buildah podman docker,$(shell command -v $(t)))))
IMAGE_ARCH  ?= amd64
IMAGED      := launcher task aggregator
IMAGES      := build/images
export IMAGE_TOOL IMAGE_ARCH VERSION REGISTRY PUSH_FLAGS
export REVISION := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
# All time stamps in an image: the commit's, so that building again gives the same bits.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
# Pinned, so that a new linter release cannot break a build that did not change.
GOLANGCI    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

export CGO_ENABLED ?= 0
# One commit, the same bits: not what the environment says of processors, nor how short git makes a hash today.
export GOAMD64 := v1
export GOARM64 := v8.0
export GOEXPERIMENT :=
# For builds and tests alike, so that what one has compiled serves the other. The version comes from git describe above.
export GOFLAGS ?= -trimpath -buildvcs=false -tags=$(TAGS)
# `make FULL=1 test`, `race`, `e2e`, `interop`, `door` and `door-test` try all sizes, seeds and objectives of what
# otherwise tries some.
export COPPICE_FULL := $(if $(FULL),1)

.DEFAULT_GOAL := help
.PHONY: help build demo test race lint e2e interop quality image-programs sbom images images-check push vulncheck \
  licences fuzz bench bench-peers bench-ids bench-memory bench-scale bench-calibrate bench-programs \
  clean $(BINARIES)

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-23s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the four programs and the example's generator into bin/
	$(GO) build $(BUILD_FLAGS) -o bin/ $(BINARIES:%=./%) ./examples/clicks
	@ln -sf launcher bin/coppice # as the wheel calls it


demo: build ## generate clicks, stage them, sweep 50 candidates on the local cloud, register the winner
	@rm -rf $(DEMO)
	bin/clicks --rows 200000 --out $(DEMO)/clicks.parquet
	bin/localemu exec --data $(DEMO)/cloud -- sh examples/clicks/demo.sh $(DEMO)/cloud

# FULL=1
test: ## run the tests (`make lint` vets them); in FULL, all sizes and seeds of those that try some
	$(GO) test -vet=off -timeout $(if $(FULL),60,20)m ./...

.PHONY: tables
# Python's door where build/venv is
tables: ## seventy odd tables through the doors: stage and fit, CSV and JSONL, predict, Python
	COPPICE_FULL=1 COPPICE_PYTHON=$(abspath $(wildcard build/venv/bin/python)) \
	  $(GO) test -count 1 -v -run '^TestTables$$' ./launcher/internal/draft

.PHONY: pictures
pictures: ## the pictures of docs/page.md, of made-up sweeps and nights (needs chromium)
	$(GO) test -tags browser,$(TAGS) -count 1 -run Pictures ./internal/page -pictures $(abspath docs/images)

SHOTS ?= build/shots
.PHONY: page-check
# needs chromium and npm; pictures in SHOTS=build/shots, empty for none
# plots, filters, keys, nothing leaves, axe-core
page-check: build/axe/package/axe.min.js ## the pages in a browser without a window
	@mkdir -p build $(SHOTS)
	$(GO) test -tags browser,$(TAGS) -count 1 -v -run Browser ./internal/page -axe $(abspath $<) -shots \
	  "$(abspath $(SHOTS))"
	$(GO) test -tags browser,$(TAGS) -count 1 -v -run Browser ./launcher/internal/console

# For tests only; nothing of it is in a program or a page.
build/axe/package/axe.min.js:
	@mkdir -p build/axe
	cd build/axe && npm pack --silent axe-core@4.10.3 && tar xzf axe-core-4.10.3.tgz

.PHONY: portable portable-arm64
portable: ## the trainer without assembly, and for arm64, on which qemu-user runs it: the same models; Windows compiles
	$(GO) test -short -tags purego,$(TAGS) ./internal/gbt
	GOARCH=arm64 $(GO) vet ./internal/gbt ./internal/exact ./internal/dataset ./internal/metric ./internal/calibrate
	GOOS=windows GOARCH=amd64 $(GO) build -o build/ ./python/program
	@$(MAKE) --no-print-directory portable-arm64

# Two proofs that arm64 trains the same models. Its compiler fuses x*y + z unless a conversion forbids it,
# which changes last bits: its listing must have no fused instruction but those of exact.Exp, which are
# meant. And most tests run, above all ModelBytes; what is skipped takes minutes under emulation, or compares with the
# tests' own slow trainer, whose sums the compiler fuses.
QEMU     := $(firstword $(foreach q,qemu-aarch64 qemu-aarch64-static,$(shell command -v $(q))))
SLOW_ARM := ^Fuzz|SameBytes|DrawCategories|EqualGains|TestPredictions|AgainstTheReference
portable-arm64:
	@GOARCH=arm64 $(GO) build -gcflags=-S ./internal/gbt ./internal/exact ./internal/expression 2>&1 | awk \
	  '/\tFN?M(ADD|SUB)[SD]\t/ { if (/exponential/) seen = 1; else { bad = 1; print } } \
	  END { if (bad) print "these operations are fused on arm64, and models differ: write float64(x*y) + z"; \
	    else if (!seen) { bad = 1; print \
	  "gbt: the listing for arm64 shows not even the fused operations of exact.Exp: the check sees nothing" } \
	    exit bad }'
ifneq ($(QEMU),)
	GOARCH=arm64 $(GO) test -short -exec $(QEMU) -skip '$(SLOW_ARM)' ./internal/gbt
	@mkdir -p build
	GOARCH=arm64 $(GO) test -c -o build/team-arm64.test ./internal/team
	COPPICE_TEST_OTHER="$(QEMU) $(CURDIR)/build/team-arm64.test" $(GO) test -count=1 -run Processors ./internal/team
else
	@echo "portable: gbt was NOT RUN on arm64, only compiled: install qemu-user"
endif

# The race detector watches packages whose own code starts, waits for or locks something, and those whose tests use them
# from several goroutines: the others would run on one for minutes to show nothing. internal/arch looks for what is
# missing here. -short leaves out what is long and shows no race that shorter tests do not.
CONCURRENT = $(shell grep -rlE '"sync"|"sync/atomic"|/errgroup"|^\s+go (func|[a-z])|select \{|AfterFunc' \
  --include='*.go' --exclude='*_test.go' --exclude-dir=testdata aggregator internal launcher localemu python task | \
  xargs -n 1 dirname | sort -u | sed 's,^,./,')
CONCURRENT_TESTS := ./aggregator/internal/cli ./internal/cloud/batch ./internal/cloud/pubsub ./task/internal/keep
# Of these, most tests use one goroutine for long, or show again what others do; so only some that use several, by their
# whole names. FULL=1 runs all.
ONE_AT_A_TIME := ./aggregator/internal/conclude ./internal/scorer ./launcher/internal/cli ./task/internal/worker \
  ./internal/gbt ./internal/dataset/ingest ./internal/team ./localemu/batchemu ./internal/nights \
  ./launcher/internal/serve ./internal/registry ./launcher/internal/stager ./internal/calibrate ./internal/cloud/gcs \
  ./localemu/gcsemu ./internal/sweepstore ./localemu/internal/cli ./launcher/internal/clean \
  ./internal/fit ./internal/dataset/encode
RACE_TESTS := TestAggregatorsOverAFoulStore TestANewAggregatorRecallsWeeksOfSweeps TestOpenMappedAtOnce TestConsoleServes \
  TestWatchOfAJobThatIsGone \
  TestSameModelsHoweverManyTasks TestOpenFoldsOverAFoulStore TestTheFinalTrainingOfSeveralMachines \
  TestCancelledDuringTheCopy TestTasksOfAMachineAgreeOnItsName TestSavedWhenToldToGo TestALimitWithoutAModel \
  TestWaitingForMemoryEndsWithTheSweep \
  TestSameBytesForAnyThreads TestPoolWorksSideBySide TestPredictAllAtOnce TestATeamGoesOnWithOthers \
  TestEveryObjectiveSameBytes \
  TestFingerprint TestParquetAndCSVEncodeAlike TestSplitByRandom TestIDsOfClasses \
  TestWorkersTrainTheSameModelAsOne TestAClosedNetwork TestExchangesOfAllSizes TestASilentWorkerIsGone \
  TestAWriteToAStoppedWorkerEnds TestCloseDoesNotWait TestStrangersAreLeftOut \
  TestTwentyTasksOnTwoMachines TestCancelWhileRunning TestLostMachine TestFaultsAfterATime TestNotifications \
  TestMeasureStops TestFirstNight \
  TestSwapsUnderLoad TestDrain TestGrace TestFullQueue \
  TestConcurrentRegister \
  TestStagingsSideBySide TestSameBytesWhateverTheProcessors TestStandingStill TestLostAnswersAreSettled \
  TestGenerationsAreUnique TestLongUploadSpills TestFaults \
  TestUp TestSignalEndsCommandAndLeavesNothing \
  TestTogether TestNeededMeanwhile TestUndone TestBag TestTrainOnFolds TestSameBinsForAnyThreadsAndMemory
race: export CGO_ENABLED = 1
# A watched program sleeps a second before it exits, in case other threads still have a race to report; with
# some hundred programs that the tests start, that is minutes. By then tests have waited for their goroutines.
race: export GORACE := atexit_sleep_ms=50
race: ## run the tests of what is concurrent under the race detector (needs a C compiler; FULL=1)
ifdef FULL
	$(GO) test -race -short -vet=off -timeout 60m $(sort $(CONCURRENT) $(CONCURRENT_TESTS) $(ONE_AT_A_TIME))
else
	$(GO) test -race -short -vet=off -timeout 20m $(filter-out $(ONE_AT_A_TIME),$(CONCURRENT)) $(CONCURRENT_TESTS)
	$(GO) test -race -short -vet=off -timeout 20m -run "^($$(echo $(RACE_TESTS) | tr ' ' '|'))$$" $(ONE_AT_A_TIME)
endif

# The linter vets, too, all but what is behind a tag.
lint: ## gofmt, go vet, golangci-lint
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not gofmt'ed:"; gofmt -l $$(git ls-files '*.go'); exit \
	  1; }
	$(GO) vet -tags e2e,$(TAGS) ./e2e
	$(GO) vet -tags browser,$(TAGS) ./internal/page ./launcher/internal/console
	$(GO) run $(GOLANGCI) run ./...

.PHONY: terraform-check deploy-walk doctor-local
doctor-local: build ## examine the local cloud as `launcher doctor` would examine a project (a few seconds)
	bin/localemu exec -- bin/launcher doctor

# TERRAFORM=, TF_CLI_CONFIG_FILE=
terraform-check: ## fmt, validate and test of terraform/ and its examples, without a cloud
	@TERRAFORM=$(TERRAFORM) terraform/check.sh

deploy-walk: ## do what docs/run.md says under "Without a cloud", word for word (STANDIN=)
	@awk '/^## /{on=/Without a cloud/} on&&/^STANDIN=/{print; print "[ -x \"$$STANDIN/install\" ] && [ -x \"$$STANDIN/cli\" ]"}' docs/run.md | sh -e || \
	  { echo "deploy-walk: nothing was done: it needs a stand-in for the Google provider, a folder with the programs install and cli: make deploy-walk STANDIN=FOLDER. docs/run.md says under \"Without a cloud\" what they do; make terraform-check needs none." >&2; exit 1; }
	awk '/^## /{on=/Without a cloud/} /^```/{code=on&&/sh$$/; next} on&&code' docs/run.md | sh -eux

.PHONY: acceptance acceptance-destroy
# REGION=, NAME=, MACHINE=, SSDS=, NEVER=; DRY=1 prints it, YES=1 does not ask
acceptance: ## the whole way in a real project, every expectation stated: PROJECT=
	@PROJECT=$(PROJECT) REGION=$(REGION) NAME=$(NAME) MACHINE=$(MACHINE) SSDS=$(SSDS) NEVER=$(NEVER) DRY=$(DRY) YES=$(YES) sh \
	  terraform/acceptance.sh

acceptance-destroy: ## remove what an acceptance run that stopped has left, in its region: PROJECT= NAME=
	@PROJECT=$(PROJECT) REGION=$(REGION) NAME=$(NAME) sh terraform/acceptance.sh destroy

# DATA=folder of real tables, RUN=, SKIP=tests
e2e: ## whole sweeps through the built programs: a real table, killed aggregators, no cloud
	COPPICE_DATA=$(abspath $(DATA)) COPPICE_PYTHON=$(abspath $(wildcard build/venv/bin/python)) \
	  $(GO) test -tags e2e,$(TAGS) -count 1 -timeout 20m -v -vet=off -run '$(or $(RUN),E2E|^TestAcceptance$$)' $(if $(SKIP),-skip '$(SKIP)') ./e2e

.PHONY: pairs
# COPPICE_PAIRS=write writes it
pairs: ## every pair of what sweep.yaml combines, run and trained again: the table of docs/sweep.md
	$(GO) test -tags e2e,$(TAGS) -count 1 -timeout 30m -v -run TestPairs ./e2e

.PHONY: e2e-tables
e2e-tables: ## a sweep of fifty candidates over 337,000 flights, in minutes (DATA=folder of real tables)
	COPPICE_DATA=$(abspath $(DATA)) COPPICE_PYTHON=$(abspath $(wildcard build/venv/bin/python)) \
	  $(GO) test -tags e2e,$(TAGS) -count 1 -timeout 60m -v -run TestTable ./e2e

.PHONY: chaos
# MINUTES= at most, AT_ONCE=, STOP=asha or halving, METHOD=gp, ENSEMBLE=3); docs/run.md
chaos: ## whole sweeps under random scripts of faults: RUNS= SEED=
	COPPICE_CHAOS_RUNS=$(or $(RUNS),20) COPPICE_CHAOS_SEED=$(SEED) COPPICE_CHAOS_MINUTES=$(MINUTES) \
	  COPPICE_CHAOS_AT_ONCE=$(AT_ONCE) COPPICE_CHAOS_STOP=$(STOP) COPPICE_CHAOS_METHOD=$(METHOD) \
	  COPPICE_CHAOS_ENSEMBLE=$(ENSEMBLE) \
	  $(GO) test -tags e2e,$(TAGS) -count 1 -timeout 12h -v -run TestE2EChaos ./e2e

.PHONY: slurm
slurm: ## a sweep on a Slurm of four nodes on this machine, disturbed (as root, on Debian: it installs slurm-wlm)
	$(GO) test -tags e2e,$(TAGS) -count 1 -timeout 15m -v -run '^TestSlurm$$' ./e2e

.PHONY: nights
NIGHTS_SEEDS ?= 5
NIGHTS_ROWS ?= 20000
# 20 minutes and more
nights: ## every kind of bad night on NIGHTS_SEEDS of three streams, the built programs, and the gate for months
	$(GO) test -count 1 -timeout 120m -v -run Streams ./internal/nights -seeds $(NIGHTS_SEEDS) -rows $(NIGHTS_ROWS) -costs
	NIGHTS_SEEDS=$(NIGHTS_SEEDS) $(GO) test -tags e2e,$(TAGS) -count 1 -timeout 120m -v -run NightsOfAllKinds ./e2e
	for w in "1 20000" "28 2000" "90 700" "180 350"; do NIGHTLY="$$w 4 300 21 1" $(GO) test -count 1 -timeout 60m \
	  -v -run Nightly ./aggregator/internal/judge || exit 1; done
	MONTHS=34 SEED=500 $(GO) test -count 1 -timeout 60m -v -run 'Months|OldChampions' ./aggregator/internal/judge

.PHONY: always wheels wheels-check door door-test dist install
ALL_PLATFORMS := linux-amd64 linux-arm64 darwin-arm64 windows-amd64
HERE = $(shell go env GOOS)-$(shell go env GOARCH)
PLATFORMS ?= $(HERE)
# How the program of platform $$p is called.
EXE = coppice$$(case $$p in windows-*) echo .exe;; esac)
# PLATFORMS=linux-arm64
wheels: ## Python's wheel with all programs in one, in build/wheels
	@rm -rf build/wheels
	@for p in $(PLATFORMS); do \
	  CGO_ENABLED=0 GOOS=$${p%-*} GOARCH=$${p#*-} $(GO) build -trimpath -buildvcs=false $(BUILD_FLAGS) -o \
	  build/program/$$p/$(EXE) ./python/program && \
	  python3 python/wheel/build.py --program build/program/$$p/$(EXE) --platform $$p --out build/wheels || exit 1; \
	done

wheels-check: PLATFORMS = $(ALL_PLATFORMS)
wheels-check: wheels ## every wheel's record, and its program's format and version (arm64 under qemu)
	python3 python/wheel/check.py $(VERSION) build/wheels/*.whl

# How the wheel of this machine ends, before .whl.
WHEEL_HERE = $(if $(filter darwin-%,$(HERE)),macosx_12_0_arm64,$(if $(filter %arm64,$(HERE)),musllinux_1_1_aarch64,musllinux_1_1_x86_64))

# A fresh environment that has nothing but the wheel, made now, and what it needs.
build/venv-door/ok: always
	@$(MAKE) --no-print-directory wheels
	rm -rf build/venv-door && python3 -m venv build/venv-door
	build/venv-door/bin/pip install --quiet --no-compile --disable-pip-version-check build/wheels/*$(WHEEL_HERE).whl
	@touch $@

door: build build/venv-door/ok ## from a CSV of 20,000 rows (FULL=1: 100,000) to predictions, by Python and by `coppice fit`: seconds, memory
	build/venv-door/bin/python python/tests/door/minutes.py --clicks bin/clicks $(if $(FULL),,--rows 20000 --minutes 0.2)

# To the same environment, after `make door` has had it bare; that makes a new one.
door-test: build/venv-door/ok ## estimators: scikit-learn's checks, tables that are not nice, notebooks, the same bytes
	build/venv-door/bin/pip install --quiet --no-compile --disable-pip-version-check -r python/tests/door/requirements.txt
	cd python/tests/door && ../../../build/venv-door/bin/python -m unittest test_columns test_estimators test_notebooks

DIST := build/dist
dist: PLATFORMS = $(ALL_PLATFORMS)
dist: wheels build/tools/ok ## archives of the programs for PLATFORMS, with licence, SBOM and checksums, in build/dist
	@rm -rf $(DIST) && mkdir -p $(DIST)
	@for p in $(PLATFORMS); do \
	  folder=$(DIST)/coppice-$(VERSION)-$$p && mkdir -p $$folder && cp build/program/$$p/$(EXE) LICENSE $$folder/ && \
	  build/tools/cyclonedx-gomod bin -json -noserial -notimestamp -std -version $(VERSION) -output \
	  $$folder/coppice.cdx.json $$folder/$(EXE) && \
	  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C $(DIST) -cf - \
	  coppice-$(VERSION)-$$p | gzip -n9 > $$folder.tar.gz && rm -rf $$folder || exit 1; \
	done; cd $(DIST) && sha256sum *.tar.gz > SHA256SUMS && cat SHA256SUMS

PREFIX ?= /usr/local
install: ## the programs in PREFIX/lib/coppice, and PREFIX/bin/coppice
	$(GO) build $(BUILD_FLAGS) -o build/program/$(HERE)/coppice ./python/program
	install -d $(DESTDIR)$(PREFIX)/lib/coppice $(DESTDIR)$(PREFIX)/bin
	install -m 755 build/program/$(HERE)/coppice $(DESTDIR)$(PREFIX)/lib/coppice/coppice
	ln -sf ../lib/coppice/coppice $(DESTDIR)$(PREFIX)/bin/coppice

# DATA=folder of real tables
interop: build/venv/ok ## have Python's lightgbm load our models and compare scores, and Google's Python clients use the local cloud
	PYTHONDONTWRITEBYTECODE=1 build/venv/bin/python -W error -m unittest discover -s python/tests
	COPPICE_DATA=$(abspath $(DATA)) COPPICE_PYTHON=$(abspath build/venv/bin/python) $(GO) test -tags e2e,$(TAGS) \
	  -count 1 -timeout 20m -v -vet=off -run 'Interop$(if $(FULL),|TestE2EAds$$)' ./e2e \
	  $(if $(FULL),./internal/dataset/table)

.PHONY: fuzz-versions
# SEED=
fuzz-versions: build/venv/ok ## alter versions at random: Python and Go must refuse the same and predict the same (MINUTES=)
	$(GO) build -o bin/gauge ./bench/gauge
	PYTHONDONTWRITEBYTECODE=1 build/venv/bin/python python/tests/fuzz.py --minutes $(or $(MINUTES),5) --gauge bin/gauge \
	  $(if $(SEED),--seed $(SEED))

quality: build/venv/ok ## compare validation losses with LightGBM's on real tables, of every objective (some minutes)
	COPPICE_DATA=$(abspath $(DATA)) COPPICE_PYTHON=$(abspath build/venv/bin/python) $(GO) test -tags e2e,$(TAGS) \
	  -count 1 -timeout 30m -v -run Quality ./e2e

build/venv/ok: bench/requirements.txt
	python3 -m venv build/venv
	build/venv/bin/pip install --quiet --no-compile --disable-pip-version-check -r bench/requirements.txt
	@touch $@

image-programs:
	@mkdir -p $(IMAGES)
	CGO_ENABLED=0 GOOS=linux GOARCH=$(IMAGE_ARCH) $(GO) build -trimpath -buildvcs=false $(BUILD_FLAGS) -o $(IMAGES)/ \
	  $(IMAGED:%=./%)
	$(GO) run ./container/roots > $(IMAGES)/ca-certificates.crt

# build/images/*.cdx.json
sbom: image-programs build/tools/ok ## what is in each program, as CycloneDX JSON, from the binaries themselves
	@for p in $(IMAGED); do \
	  build/tools/cyclonedx-gomod bin -json -noserial -notimestamp -std -version $(VERSION) -output \
	  $(IMAGES)/$$p.cdx.json $(IMAGES)/$$p || exit 1; \
	done

images: sbom ## build a container image of launcher, task and aggregator (buildah, podman or docker; IMAGE_TOOL=)
	@sh container/images.sh $(IMAGES) $(IMAGED)

images-check: images build ## sizes, labels, the same bits twice, --version, and a sweep whose tasks run in the task's image
	@sh container/check.sh $(IMAGES) $(IMAGED)

push: ## push the images and print their digests (REGISTRY=LOCATION-docker.pkg.dev/PROJECT/REPOSITORY)
	@VULN_REQUIRED=1 $(MAKE) --no-print-directory vulncheck >&2
	@sh container/push.sh $(IMAGED)

# where the database is out of reach it says "not checked", and fails if VULN_REQUIRED is set, as before a push
vulncheck: build/tools/ok ## known vulnerabilities that the programs can reach
	@sh .ci/tools/vulncheck.sh -tags=$(TAGS) $(BINARIES:%=./%)

licences: build/tools/ok ## the licences of all dependencies against .ci/tools/licences.allow; the report is build/licences.csv
	@GOFLAGS=-tags=$(TAGS) sh .ci/tools/licences.sh $(BINARIES:%=./%)

# Pinned in .ci/tools/go.mod, with checksums.
build/tools/ok: .ci/tools/go.mod .ci/tools/go.sum
	GOFLAGS='-trimpath -buildvcs=false' $(GO) build -C .ci/tools -o $(abspath build/tools)/ tool
	@touch $@

.PHONY: team-faults
team-faults: ## trainings of several workers over a network with faults: RUNS=
	$(GO) test -count 1 -timeout 1h -parallel 12 -run NetworkFaults -faults $(or $(RUNS),200) ./internal/team

fuzz: ## run every fuzz test for FUZZ_TIME (default 20s each)
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "== $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZ_TIME) -fuzzminimizetime 10x $$pkg \
	  || exit 1; \
	  done; done

bench: ## run the Go benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./internal/gbt ./internal/dataset/... ./launcher/internal/serve

-include bench/bench.mk

clean: ## remove what was built
	rm -rf bin build
