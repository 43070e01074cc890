# make demo:      builds leat and runs its main job on a made-up scene.
# make test:      the quick tests, within minutes; needs neither Slurm nor a browser.
# make test-rest: what make test leaves out: tests by Slurm and in a browser, long storms of kills.
# make test-all:  installs what the tests compare leat with (where it may) and runs all tests, then
#                 those of goroutines again with the race detector.

GO ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# Without the gRPC half of Google's client, which leat does not use: see docs/design/cmd-leat.md.
# Everything is compiled with the same flags, so it is compiled once.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -tags=disable_grpc_modules)

.PHONY: build demo test test-rest test-all race fuzz bench-apply bench-cache bench-shm bench-namespace bench-stage bench-workers bench-gdal clean

build:
	CGO_ENABLED=0 $(GO) build -ldflags "-s -w -X main.version=$(VERSION)" -o bin/leat ./cmd/leat

demo: build
	bin/leat demo demo

test:
	CGO_ENABLED=0 scripts/test -short

test-rest:
	scripts/test-deps
	CGO_ENABLED=0 scripts/test --left-out

test-all:
	scripts/test-deps
	CGO_ENABLED=0 scripts/test
	$(MAKE) race

# Left out are packages in which goroutines share little (arithmetic, encodings, commands), or whose
# clients and processes take minutes with the race detector (stores, batch systems, browsers, GDAL).
# Of apply, and of what reads for it, the tests run in which goroutines and workers meet.
NO_RACE := /cmd/ /examples/ /apply$$ /stores /raster/geotiff /objstore/cloud /worker/slurm /worker/pbs \
	/worker/awsbatch /live /internal/gdal /internal/archtest /internal/testreport /expr /internal/inflate \
	/internal/tiff /internal/wkt /internal/demo /internal/preview /internal/report /internal/units \
	/internal/sysmem /raster$$ /raster/stats /raster/overview /raster/rastertest /npy /ndarray /block /codec \
	/apply/internal/jobspec /apply/internal/output
RACE_RUN := SourceConformance$$|WorkerProcess|InAnyProcess|AllWorkersLost|ConcurrentRun|Panic|Merge|DecodedOnce|StagedOnce|ComeOnce|AtOnce|TwoRuns|RemoteEqualsLocal
race:
	CGO_ENABLED=1 $(GO) test -p 4 -timeout 30m -race -short -skip Kill \
		$$($(GO) list ./... | grep -v $(foreach p,$(NO_RACE),-e '$p'))
	CGO_ENABLED=1 $(GO) test -timeout 30m -race -short -run '$(RACE_RUN)' ./apply ./stores ./raster/geotiff

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

clean:
	rm -rf bin demo bench/data
