package codec

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"

	"leat/bench/scene"
	"leat/internal/deflate"
	"leat/ndarray"
)

// image has the pixels that are encoded in tiles.
type image struct {
	kind, name string
	side       int
	element    int // bytes of a sample
	samples    int // of a pixel, interleaved; 0 is 1
	predictor  int
	pixels     []byte // little-endian
}

// pixelBytes returns the size of a pixel in bytes.
func (im *image) pixelBytes() int { return im.element * max(1, im.samples) }

// tiles returns the tiles of side x side pixels, after the predictor.
func (im *image) tiles(side int) (tiles [][]byte) {
	pixel := im.pixelBytes()
	stride, width := im.side*pixel, side*pixel
	for y := 0; y+side <= im.side; y += side {
		for x := 0; x+side <= im.side; x += side {
			tile := make([]byte, 0, side*width)
			for row := range side {
				tile = append(tile, im.pixels[(y+row)*stride+x*pixel:][:width]...)
				predict(im.predictor, tile[row*width:], im.element, pixel)
			}
			tiles = append(tiles, tile)
		}
	}
	return tiles
}

// predict applies a predictor of TIFF to a row. Samples have element bytes, pixels pixel bytes.
func predict(predictor int, row []byte, element, pixel int) {
	switch {
	case predictor == 2 && element == 1:
		for i := len(row) - 1; i >= pixel; i-- {
			row[i] -= row[i-pixel]
		}
	case predictor == 2: // of 16 bits
		for i := len(row) - 2; i >= pixel; i -= 2 {
			difference := binary.LittleEndian.Uint16(row[i:]) - binary.LittleEndian.Uint16(row[i-pixel:])
			binary.LittleEndian.PutUint16(row[i:], difference)
		}
	case predictor == 3: // of one sample
		from, n := append([]byte(nil), row...), len(row)/element
		for i, b := range from {
			row[(element-1-i%element)*n+i/element] = b
		}
		for i := len(row) - 1; i > 0; i-- {
			row[i] -= row[i-1]
		}
	}
}

// encode returns the streams of leat's encoder.
func (im *image) encode(tiles [][]byte) (streams []stream) {
	for _, t := range tiles {
		streams = append(streams, stream{im.newEncoder(t).AppendZlib(nil, t), t})
	}
	return streams
}

// newEncoder returns leat's encoder of such tiles.
func (im *image) newEncoder(tile []byte) *deflate.Encoder {
	side := int(math.Sqrt(float64(len(tile) / im.pixelBytes())))
	row := side * im.pixelBytes()
	return deflate.NewEncoder(deflate.Options{Element: im.element, Row: row, Predictor: im.predictor})
}

// makeImages returns images of the demo's scene, made ones and, where there are any, of real
// scenes.
func makeImages(ctx context.Context, leat *scene.Leat, quick bool) ([]*image, error) {
	side := 1024
	if quick {
		side = 512
	}
	red, nir, err := leat.Bands(ctx, 5490)
	if quick {
		red, nir, err = leat.Bands(ctx, side)
	}
	if err != nil {
		return nil, err
	}
	rawRed, err1 := readPixels(ctx, red, 0, 0, side, 1)
	rawNIR, err2 := readPixels(ctx, nir, 0, 0, side, 1)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	a, b := ndarray.Cast[uint16](rawRed), ndarray.Cast[uint16](rawNIR)
	ndvi := ratio(a, b)
	images := []*image{uint16s("uint16, demo, predictor 2", a, side, 2), uint16s("uint16, demo, predictor 1", a, side, 1),
		floats("ndvi", "NDVI, demo, predictor 3", ndvi, side), floats("ndvi", "NDVI, demo, predictor 1", ndvi, side),
		floats("elevation", "elevation, float32, made, predictor 3", elevation(side), side),
		uint16s("elevation, uint16, made, predictor 2", halfMetres(elevation(side)), side, 2),
		classMap(ndvi, side), mask(ndvi, side)}
	images[3].predictor = 1
	images = append(images, nodata("NDVI, demo, half nodata, predictor 3", ndvi, side, side/2),
		nodata("NDVI, demo, 15/16 nodata, predictor 3", ndvi, side, side/16),
		nodata("nodata, float32, predictor 3", ndvi, side, 0), halfZeros(a, side), ones(side))
	if scenes == "" || quick {
		return images, nil
	}
	real, err := realImages(ctx)
	return append(images, real...), err
}

func uint16s(name string, v []uint16, side, predictor int) *image {
	im := &image{kind: "uint16", name: name, side: side, element: 2, predictor: predictor}
	for _, x := range v {
		im.pixels = binary.LittleEndian.AppendUint16(im.pixels, x)
	}
	return im
}

func floats(kind, name string, v []float32, side int) *image {
	im := &image{kind: kind, name: name, side: side, element: 4, predictor: 3}
	for _, x := range v {
		im.pixels = binary.LittleEndian.AppendUint32(im.pixels, math.Float32bits(x))
	}
	return im
}

func ratio(red, nir []uint16) []float32 {
	v := make([]float32, len(red))
	for i := range v {
		a, b := float32(red[i]), float32(nir[i])
		if a+b > 0 {
			v[i] = (b - a) / (a + b)
		}
	}
	return v
}

// nodata has -9999 below a line that begins at row scene and falls by one row in 16 columns.
func nodata(name string, ndvi []float32, side, scene int) *image {
	v := append([]float32(nil), ndvi...)
	for i := range v {
		if i/side+i%side/16 >= scene {
			v[i] = -9999
		}
	}
	return floats("nodata", name, v, side)
}

// halfZeros has 0 below the diagonal.
func halfZeros(scene []uint16, side int) *image {
	v := append([]uint16(nil), scene...)
	for i := range v {
		if i/side > i%side {
			v[i] = 0
		}
	}
	im := uint16s("uint16, demo, half nodata, predictor 2", v, side, 2)
	im.kind = "nodata"
	return im
}

// ones has only 65535.
func ones(side int) *image {
	v := make([]uint16, side*side)
	for i := range v {
		v[i] = math.MaxUint16
	}
	im := uint16s("nodata, uint16, predictor 2", v, side, 2)
	im.kind = "nodata"
	return im
}

// elevation is a smooth surface with noise of a centimetre.
func elevation(side int) []float32 {
	r := rand.New(rand.NewPCG(7, 9))
	v := make([]float32, side*side)
	for i := range v {
		x, y := float64(i%side), float64(i/side)
		v[i] = float32(800 + 300*math.Sin(x/211)*math.Cos(y/167) + 20*math.Sin(x/23+y/31) +
			3*math.Sin(x/5)*math.Sin(y/7) + r.NormFloat64()*0.01)
	}
	return v
}

// halfMetres rounds heights to half metres.
func halfMetres(heights []float32) []uint16 {
	v := make([]uint16, len(heights))
	for i, h := range heights {
		v[i] = uint16(math.Round(2 * float64(h)))
	}
	return v
}

// classMap has areas of classes: the means of NDVI over 9 x 9 pixels, in steps.
func classMap(ndvi []float32, side int) *image {
	im := &image{kind: "classes", name: "classes, uint8, predictor 1", side: side, element: 1, predictor: 1}
	for i := range ndvi {
		x, y := i%side, i/side
		sum, n := 0.0, 0.0
		for v := max(0, y-4); v <= min(side-1, y+4); v++ {
			for u := max(0, x-4); u <= min(side-1, x+4); u++ {
				sum, n = sum+float64(ndvi[v*side+u]), n+1
			}
		}
		im.pixels = append(im.pixels, byte(min(9, max(0, 10*sum/n))))
	}
	return im
}

// mask has 255 where NDVI is above 0.4, else 0.
func mask(ndvi []float32, side int) *image {
	im := &image{kind: "mask", name: "mask, uint8, predictor 1", side: side, element: 1, predictor: 1}
	for _, v := range ndvi {
		b := byte(0)
		if v > 0.4 {
			b = 255
		}
		im.pixels = append(im.pixels, b)
	}
	return im
}
