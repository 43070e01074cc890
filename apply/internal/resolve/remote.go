package resolve

import (
	"context"
	"fmt"

	"leat/internal/storeurl"
	"leat/objstore"
	"leat/raster"
)

// Remote is a raster in a store. Job.Open may return one; package stores implements it. A run
// reads it piece by piece if it needs less than half of it, and otherwise stages the whole file on
// local disk before the first block that needs it.
type Remote interface {
	raster.Source
	raster.RangeLister
	// Version returns the store's description of the version that all reads return.
	Version() objstore.Info
	// Fetch starts to fetch pieces, see raster.Prefetcher.
	Fetch(ranges []raster.Range, skip func(raster.Range) bool) (release func())
	// CheckRanges returns why the file can't be read piece by piece, CheckStaging why it can't be
	// staged; nil if it can.
	CheckRanges() error
	CheckStaging() error
	// Local reports whether the whole file is on local disk.
	Local() bool
	// Stage starts to stage the file and returns at once; false means that it is read in pieces
	// instead. Wait waits until staging is done; later reads are local.
	Stage() (bool, error)
	Wait(ctx context.Context) error
	// Done is called after the last read. It may wait until the whole file is staged.
	Done() error
}

// FileStager is a [Remote] that can be staged as a local file: GDAL, which warps rasters on other
// grids, opens files.
type FileStager interface {
	// StageFile is like Stage and makes LocalPath valid, from when Wait has returned until Done.
	StageFile() (bool, error)
	LocalPath() (string, error)
}

// RangeWaiter is a [Remote] whose ranges can be read before all of it is staged.
type RangeWaiter interface {
	// WaitRanges is like Wait, but may return as soon as the ranges that list returns are local.
	// list is not called if the whole file is local.
	WaitRanges(ctx context.Context, list func() ([]raster.Range, error)) error
}

// Opener opens an input by its name.
type Opener = func(ctx context.Context, path string) (raster.Source, error)

// OpenLocal is the Opener of jobs that have none.
func OpenLocal(_ context.Context, path string) (raster.Source, error) {
	if storeurl.Is(path) {
		return nil, fmt.Errorf("%s: the job has no way to open URLs (Job.Open)", storeurl.Redact(path))
	}
	return OpenRaster(path)
}

// SidecarVersioner is a [Remote] with sidecars that change the meaning of its pixels, such as a
// mask. Without it, a run can't detect that one of them was replaced, before it resumes or between
// the workers that read it.
type SidecarVersioner interface {
	// SidecarVersions returns the store's description of the sidecars, by the suffix after the
	// raster's name.
	SidecarVersions() map[string]objstore.Info
}
