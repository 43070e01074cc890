package apply

import (
	"context"

	"leat/apply/internal/resolve"
	"leat/raster"
)

// Open opens a raster by its content: GeoTIFF and .npy by leat's own drivers; other formats, and
// TIFFs with codings that these do not read, by GDAL if it is installed. A path that is not a file
// may be a name that GDAL understands, such as NETCDF:"file.nc":var or /vsizip/a.zip/b.img.
func Open(path string) (raster.Source, error) { return resolve.OpenRaster(path) }

// GridOf returns the grid of a raster that [Open] can open, for Controls.Grid. Its ground control
// points and RPC are not part of it.
func GridOf(path string) (raster.Grid, error) {
	return resolve.GridOf(context.Background(), resolve.OpenLocal, path)
}

// Remote is a raster in a store. Job.Open may return one; package stores implements it. A run
// reads it piece by piece if it needs less than half of it, and otherwise stages the whole file on
// local disk before the first block that needs it.
//
// It is a [raster.Source] and a [raster.RangeLister] with these methods:
//
//   - Version() objstore.Info returns the store's description of the version that all reads return.
//   - Fetch(ranges []raster.Range, skip func(raster.Range) bool) (release func()) starts to fetch
//     pieces, as that of [raster.Prefetcher] does.
//   - CheckRanges() error returns why the file can't be read piece by piece, CheckStaging() error
//     why it can't be staged; nil if it can.
//   - Local() bool reports whether the whole file is on local disk.
//   - Stage() (bool, error) starts to stage the file and returns at once; false means that it is
//     read in pieces instead. Wait(ctx context.Context) error waits until staging is done; later
//     reads are local.
//   - Done() error is called after the last read. It may wait until the whole file is staged.
//
// A Remote may also have these methods:
//
//   - StageFile() (bool, error) is like Stage, for a raster on another grid, which GDAL warps.
//     LocalPath() (string, error) then returns the path of a file with exactly the raster's bytes,
//     from when Wait has returned until Done. Without both, such a raster is an error.
//   - SidecarVersions() map[string]objstore.Info returns the store's description of the sidecars
//     that change the meaning of pixels, by the suffix after the raster's name. Without it, a run
//     can't detect that one of them was replaced.
//   - WaitRanges(ctx context.Context, list func() ([]raster.Range, error)) error is like Wait, but
//     may return as soon as the ranges that list returns can be read from local disk. Without it,
//     the first block waits until the whole raster is staged.
type Remote = resolve.Remote
