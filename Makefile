# make install:   installs leat, man pages and completions below PREFIX (default: /usr/local), in DESTDIR if given.
# make demo:      builds leat and runs its main job on a made-up scene.
# make test:      the quick tests, within minutes, without object stores; needs neither Slurm nor a browser.
# make test-rest: what make test leaves out: tests of object stores, by Slurm and in a browser, long storms of kills.
# make test-portable: the tests of packages with assembly, run without it; part of make test-rest.
# make test-all:  installs what the tests compare leat with (where it may) and runs all tests, then
#                 those of goroutines again with the race detector.
# make reference: writes what below docs is generated from the program: options, functions, --json.
# make wheel:     the Python package, with leat, as a wheel in dist/.
# make dist:      archives, Debian packages and checksums in dist/.

GO ?= go
COMMIT := $(shell git describe --always --dirty --exclude '*' 2>/dev/null)
PREFIX ?= /usr/local
# Only some shells expand ~ there.
override PREFIX := $(patsubst ~/%,$(HOME)/%,$(PREFIX))

# Without the gRPC half of Google's client, which leat does not use: see docs/design/cmd-leat.md.
# Without debug information, which go test and make build leave out of programs anyway: compiling
# takes a tenth less time. Everything is compiled with the same flags, so it is compiled once.
TAGS := disable_grpc_modules
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -gcflags=all=-dwarf=false -tags=$(TAGS))

.PHONY: reference build static install uninstall dist wheel demo test test-rest test-portable test-all race race-compile fuzz bench-apply bench-cache bench-shm bench-namespace bench-stage bench-workers bench-gdal bench-zonal bench-codec bench-python clean

LDFLAGS := -s -w -X main.commit=$(COMMIT)

build:
	CGO_ENABLED=0 $(GO) build -ldflags "$(LDFLAGS)" -o bin/leat ./cmd/leat
	@touch bin/leat

# Without GDAL, and without a C library.
static:
	CGO_ENABLED=0 $(GO) build -tags=disable_grpc_modules,nogdal -ldflags "$(LDFLAGS)" -o bin/leat-static ./cmd/leat

# Not built again if it is newer than all sources: "sudo make install" after "make build" needs no Go.
bin/leat: $(shell find . -type f \( -name '*.go' -o -name 'page.*' \) ! -name '*_test.go' ! -path './bench/*') go.mod go.sum cmd/leat/VERSION
	@$(MAKE) --no-print-directory build

install: bin/leat
	scripts/install-files bin/leat "$(DESTDIR)$(PREFIX)"

uninstall:
	cd "$(DESTDIR)$(PREFIX)" && rm -rf bin/leat share/man/man1/leat.1.gz share/man/man1/leat-*.1.gz share/doc/leat \
		share/bash-completion/completions/leat share/zsh/site-functions/_leat share/fish/vendor_completions.d/leat.fish

dist:
	COMMIT="$(COMMIT)" GO="$(GO)" scripts/dist

wheel: bin/leat
	LEAT_BINARY=bin/leat python3 python/_build/leat_build.py dist

reference:
	CGO_ENABLED=0 $(GO) test ./cmd/leat -count=1 -run 'TestJSONPages|TestReferencePages' -update-reference

demo: build
	bin/leat demo demo

# The clients of object stores and AWS Batch are half of what go build compiles.
test:
	GOFLAGS="$(GOFLAGS),nocloud" CGO_ENABLED=0 scripts/test -short

test-rest:
	scripts/test-deps
	CGO_ENABLED=0 scripts/test --left-out
	$(MAKE) test-portable

# The tests of packages with assembly, as on a processor without AVX2 and the like. Left out are those
# that run both loops anyway, or compare with libraries that read one loop's results as the other's.
ASSEMBLY := ./internal/expr ./internal/expr/internal/focal ./internal/adler ./internal/deflate ./internal/inflate ./internal/overview ./internal/stats ./internal/tiff ./internal/tiffwrite
PORTABLE_SKIP := GDAL|PROJ|OtherLibraries|AnyLengthAndDistance|TooManyBands
test-portable:
	CGO_ENABLED=0 $(GO) test -p 4 -vet=off -count=1 -short -skip '$(PORTABLE_SKIP)' '-toolexec=env GOGC=400' \
		-exec 'env GODEBUG=cpu.all=off LEAT_TEST_PORTABLE=1' $(ASSEMBLY)
	CGO_ENABLED=0 $(GO) test -vet=off -count=1 -run TestAssemblyCanBeSwitchedOff '-toolexec=env GOGC=400' \
		-exec 'env GODEBUG=cpu.all=off LEAT_TEST_PORTABLE=1' ./internal/archtest

test-all:
	LEAT_TEST_DIST=1 scripts/test-deps
	LEAT_TEST_DIST=1 CGO_ENABLED=0 scripts/test
	$(MAKE) test-portable
	LEAT_TEST_DIST=1 $(MAKE) race

# The encoder is compiled without the detector and reports to it what each call reads and writes. Tests of runs take a
# third to half of the time.
# The compiler collects garbage less often, as in scripts/test.
RACE_FLAGS := -race '-gcflags=./internal/deflate=-dwarf=false -race=false' '-toolexec=env GOGC=400'
# Left out are packages in which goroutines share little (arithmetic, encodings, commands), or whose
# clients and processes take minutes with the race detector (stores, batch systems, browsers, GDAL).
# Of apply, and of what reads for it, the tests run in which goroutines and workers meet.
NO_RACE := /cmd/ /examples/ /apply$$ /stores /internal/geotiff /objstore/cloud /worker/slurm /worker/pbs \
	/worker/awsbatch /live /internal/gdal /internal/archtest /internal/testreport /expr /internal/inflate \
	/internal/deflate /internal/tiff /internal/wkt /internal/demo /internal/preview /internal/report /internal/units \
	/internal/sysmem /raster$$ /internal/stats /internal/overview /internal/rastertest /npy /ndarray /block /codec \
	/apply/internal/jobspec /apply/internal/output /internal/zonal$$ /internal/zonaljob /internal/table /internal/filelist \
	/internal/stac /internal/pytest /internal/colortable /internal/elementary /python$$ /internal/adler \
	/internal/config /internal/fdio /internal/localdir /internal/procfile /internal/regular /internal/suggest \
	/internal/tempfile /internal/worker/protocol /apply/internal/plan
# Tests of several processes, of damaged files, full disks, and of many or large files repeat what
# others show about goroutines: make test-all runs them too.
RACE_SKIP := $(if $(LEAT_TEST_DIST),Kill,Kill|^Fuzz|Processes|InvalidIndex|NoInodes|OutlivesWorker|EveryPlaceAndSize|EveryKindOfArray|ShuffleBufferLarger|EpochsLarger|StoreChecksum|WrongSize|AtEndOfLarge|UnversionedDirectRead$$|MinFree|DiskFilledByOthers|DamagedIndex)
RACE_RUN := SourceConformance$$|WorkerProcess|InAnyProcess|AllWorkersLost|ConcurrentRun|Panic|Merge|DecodedOnce|StagedOnce|ComeOnce|AtOnce|TwoRuns|RemoteEqualsLocal
RACE_PACKAGES = $$($(GO) list ./... | grep -v $(foreach p,$(NO_RACE),-e '$p'))
RACE_FEW := ./apply ./stores ./internal/geotiff
# A process with the detector waits a second before it exits, for races of goroutines that still run.
race: export GORACE := atexit_sleep_ms=0 $(GORACE)
race:
	CGO_ENABLED=1 $(GO) test -p 4 -timeout 60m -vet=off $(RACE_FLAGS) -short -skip '$(RACE_SKIP)' $(RACE_PACKAGES)
	CGO_ENABLED=1 $(GO) test -timeout 60m -vet=off $(RACE_FLAGS) -short -run '$(RACE_RUN)' $(RACE_FEW)

# Compiles what make race runs, and links nothing.
race-compile:
	CGO_ENABLED=1 $(GO) list -export -test -deps $(RACE_FLAGS) $(RACE_PACKAGES) $(RACE_FEW) >/dev/null

# Each fuzz target for half a minute.
fuzz:
	scripts/fuzz 30s

bench-apply:
	scripts/test-deps
	cd bench && $(GO) run ./cmd/bench apply

bench-cache:
	scripts/test-deps lmdb
	cd bench && $(GO) run ./cmd/bench cache

bench-shm:
	scripts/test-deps joblib
	cd bench && $(GO) run ./cmd/bench shm

bench-namespace:
	cd bench && $(GO) run ./cmd/bench namespace

bench-stage:
	cd bench && $(GO) run ./cmd/bench stage

bench-workers:
	cd bench && $(GO) run ./cmd/bench workers

bench-gdal:
	scripts/test-deps
	cd bench && $(GO) run ./cmd/bench gdal

bench-zonal:
	scripts/test-deps
	cd bench && $(GO) run ./cmd/bench zonal

bench-codec:
	cd bench && $(GO) run ./cmd/bench codec

# With pfio and RIOS where LEAT_PEERS names a directory that scripts/peers filled.
bench-python: build
	scripts/test-deps lmdb
	/usr/bin/python3 bench/python/cache.py
	LEAT_BINARY=$(CURDIR)/bin/leat PYTHONPATH=python /usr/bin/python3 bench/python/apply.py
	[ -z "$$LEAT_PEERS" ] || LEAT_BINARY=$(CURDIR)/bin/leat PYTHONPATH=python /usr/bin/python3 bench/python/rios.py

clean:
	rm -rf bin demo dist bench/data
