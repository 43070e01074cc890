// Package geotiff reads GeoTIFF and BigTIFF files without a C library.
//
// [Open] returns a [raster.Source] over classic and BigTIFF files of either byte order, in strips
// or tiles, band- or pixel-interleaved, uncompressed or compressed with deflate, LZW, zstd or
// PackBits. It is also a [raster.OverviewSource], a [raster.RangeLister] and a [raster.Decodable],
// and a [raster.Masker] if Info().Mask is [raster.MaskDataset]. Whatever a header claims, memory is
// allocated only for what the file can hold.
package geotiff

import (
	"io"

	"leat/internal/geotiff"
	"leat/raster"
)

// Open opens the GeoTIFF at path, with the overviews, the mask, the transform and the metadata in
// its sidecars (.ovr, .msk, world file, .aux.xml). It also opens a file that it cannot decode: Info
// describes it, and CheckReadable and Read return the reason. Its error wraps raster.ErrFormat if
// the file is not a TIFF or is damaged, raster.ErrUnsupported, or the system's error.
func Open(path string) (raster.Source, error) {
	f, err := geotiff.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// OpenAt is Open for a file of size bytes that is read through r, which must allow concurrent
// reads; name is the path in messages and in Info. The source closes r if it is an io.Closer, also
// when OpenAt fails. If r is a [raster.Prefetcher], each read first calls its Fetch.
//
// sidecar opens a sidecar of the file; nil means that there are none. A sidecar's name is the
// file's with suffix appended or, with instead, with suffix in place of its extension. sidecar
// returns it for messages, with a reader that the source closes if it is an io.Closer. If there is
// no such file, the error is fs.ErrNotExist.
func OpenAt(r io.ReaderAt, size int64, name string,
	sidecar func(suffix string, instead bool) (r io.ReaderAt, size int64, name string, err error),
) (raster.Source, error) {
	f, err := geotiff.OpenAt(r, size, name, sidecar)
	if err != nil {
		return nil, err
	}
	return f, nil
}
