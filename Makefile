# make demo: builds leat and runs its main job on a made-up scene.
# make test: installs what the tests compare with (where it may) and runs all tests.

GO ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# Without the gRPC half of Google's client, which leat does not use: 13 MB, and a third of what a start takes. Everything is compiled like this, and so only once.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -tags=disable_grpc_modules)

.PHONY: build demo test race fuzz bench-apply bench-cache bench-shm bench-namespace bench-stage bench-workers bench-gdal clean

build:
	CGO_ENABLED=0 $(GO) build -ldflags "-s -w -X main.version=$(VERSION)" -o bin/leat ./cmd/leat

demo: build
	bin/leat demo demo

# Four packages at a time: many tests wait for other processes. A busy machine takes several times as long as an idle one, and more than the ten minutes that Go gives a package.
test:
	scripts/test-deps
	CGO_ENABLED=0 $(GO) test -p 4 -timeout 30m ./...

# The commands only put together what the packages do; their processes start slowly with the race detector in them. What talks to batch systems, to browsers
# and to GDAL takes minutes in it and has little that is shared, clients of stores take minutes to compile for it, and arithmetic and killed processes share nothing; of apply, and of what reads for it, the tests in which goroutines and workers meet are run.
race:
	scripts/test-deps
	CGO_ENABLED=1 $(GO) test -p 4 -timeout 30m -race -short -skip Kill $$($(GO) list ./... | grep -v -e /cmd/ -e /bench -e /examples/ -e '/apply$$' -e /stores -e /raster/geotiff -e /objstore/cloud -e /worker/slurm -e /worker/pbs -e /worker/awsbatch -e /live -e /internal/gdal -e /expr -e /internal/inflate)
	CGO_ENABLED=1 $(GO) test -timeout 30m -race -short -run 'WorkerProcess|InAnyProcess|AllWorkersLost|ConcurrentRun|Panic|Merge|ContractIsKept$$|DecodedOnce|StagedOnce|ComeOnce|AtOnce|TwoRuns|RemoteEqualsLocal' ./apply ./stores ./raster/geotiff

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
