package codec

import (
	"context"
	"errors"
	"path/filepath"

	"leat/block"
	"leat/internal/geotiff"
	"leat/ndarray"
)

// sceneSide is the number of rows and columns of the images that realImages returns.
const sceneSide = 512

// realImages returns images of the real scenes below the directory scenes.
func realImages(ctx context.Context) ([]*image, error) {
	var errs error
	read := func(x, y, bands int, path ...string) []byte {
		v, err := readPixels(ctx, filepath.Join(append([]string{scenes}, path...)...), x, y, sceneSide, bands)
		errs = errors.Join(errs, err)
		return v
	}
	b4, b5 := read(0, 0, 1, "landsat8", "l8_B4.tif"), read(0, 0, 1, "landsat8", "l8_B5.tif")
	b8, qa := read(0, 0, 1, "landsat8", "l8_B8.tif"), read(0, 0, 1, "landsat8", "l8_BQA.tif")
	b8a := read(200, 200, 1, "sentinel2", "s2_B8A.jp2")  // a GeoTIFF in spite of its name
	rgb := read(139, 103, 3, "rasterio", "RGB.byte.tif") // a part without nodata
	if errs != nil {
		return nil, errs
	}
	real := func(kind, name string, element, samples, predictor int, pixels []byte) *image {
		return &image{kind, name, sceneSide, element, samples, predictor, pixels}
	}
	return []*image{
		real("uint16", "uint16, Landsat 8 band 4, predictor 2", 2, 1, 2, b4),
		real("uint16", "uint16, Landsat 8 band 8, predictor 2", 2, 1, 2, b8),
		real("uint16", "uint16, Sentinel-2 band 8A, predictor 2", 2, 1, 2, b8a),
		floats("ndvi", "NDVI, Landsat 8, predictor 3", ratio(ndarray.Cast[uint16](b4), ndarray.Cast[uint16](b5)), sceneSide),
		real("classes", "quality, Landsat 8, predictor 2", 2, 1, 2, qa),
		real("rgb", "RGB, interleaved, predictor 1", 1, 3, 1, rgb),
		real("rgb", "RGB, interleaved, predictor 2", 1, 3, 2, rgb),
		real("rgb", "RGB, one band, predictor 1", 1, 1, 1, sample(rgb, 3, 0)),
		real("rgb", "RGB, one band, predictor 2", 1, 1, 2, sample(rgb, 3, 0)),
	}, nil
}

// sample returns sample i of pixels with n samples of a byte.
func sample(pixels []byte, n, i int) (v []byte) {
	for ; i < len(pixels); i += n {
		v = append(v, pixels[i])
	}
	return v
}

// readPixels reads the first bands of side x side pixels from column x and row y on. Several bands,
// of bytes, are interleaved.
func readPixels(ctx context.Context, path string, x, y, side, bands int) (v []byte, err error) {
	f, err := geotiff.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	typ := f.Info().Bands[0].Type
	numbers := make([]int, bands)
	for i := range numbers {
		numbers[i] = i + 1
	}
	a := ndarray.New(typ, bands, side, side)
	if err := f.Read(ctx, numbers, block.Window{Col: x, Row: y, Width: side, Height: side}, a); err != nil {
		return nil, err
	}
	if bands == 1 {
		return a.Raw(), nil
	}
	raw := a.Raw()
	v = make([]byte, 0, len(raw))
	for i := range side * side {
		for b := range bands {
			v = append(v, raw[b*side*side+i])
		}
	}
	return v, nil
}
