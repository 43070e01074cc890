package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// goldenRaster describes an uncompressed GeoTIFF in one strip. The writer below shares no code with
// the packages under test.
type goldenRaster struct {
	width, height, bands int
	kind                 string // u1, u2, i2 or f4
	nodata               string
	epsg                 uint16 // a projected CRS
	x, y, pixel          float64
	value                func(band, row, col int) float64
}

// noise returns the same number in [0, n) for the same place on every machine.
func noise(n uint32, seed, row, col int) float64 {
	h := uint32(seed)*0x9E3779B1 ^ uint32(row)*0x85EBCA6B ^ uint32(col)*0xC2B2AE35
	h ^= h >> 15
	h *= 0x2C1B3C6D
	h ^= h >> 12
	return float64(h % n)
}

// ramp is a smooth surface between 0 and about 2000 with some noise.
func ramp(seed int) func(int, int, int) float64 {
	return func(band, row, col int) float64 {
		hill := float64((row/3+seed*17)%200)*5 + float64((col/5+band*31)%150)*6
		return 100 + hill + noise(40, seed+band, row, col)
	}
}

func writeGoldenInputs(t *testing.T, dir string) {
	t.Helper()
	scene := goldenRaster{width: 900, height: 700, bands: 1, kind: "u2", epsg: 32631, x: 500000, y: 5200000, pixel: 10}
	with := func(change func(*goldenRaster)) goldenRaster {
		r := scene
		change(&r)
		return r
	}
	rasters := map[string]goldenRaster{
		"red.tif": with(func(r *goldenRaster) { r.value = ramp(1) }),
		"nir.tif": with(func(r *goldenRaster) { r.value = ramp(2) }),
		"holes.tif": with(func(r *goldenRaster) {
			r.nodata = "0"
			r.value = func(band, row, col int) float64 {
				if (row/40+col/60)%4 == 0 {
					return 0
				}
				return ramp(3)(band, row, col)
			}
		}),
		"rgb.tif": with(func(r *goldenRaster) {
			r.bands, r.kind = 3, "u1"
			r.value = func(band, row, col int) float64 { return math.Mod(ramp(4)(band, row, col), 256) }
		}),
		"dem.tif": with(func(r *goldenRaster) {
			r.kind, r.nodata = "f4", "-9999"
			r.value = func(band, row, col int) float64 {
				if row < 30 && col < 50 {
					return -9999
				}
				return ramp(5)(band, row, col) / 8
			}
		}),
		"signed.tif": with(func(r *goldenRaster) {
			r.kind = "i2"
			r.value = func(band, row, col int) float64 { return ramp(6)(band, row, col) - 1000 }
		}),
		"classes.tif": with(func(r *goldenRaster) {
			r.kind = "u1"
			r.value = func(_, row, col int) float64 { return float64((row/25 + col/35) % 6) }
		}),
		"shifted.tif": with(func(r *goldenRaster) { r.x, r.y, r.value = 502000, 5199000, ramp(7) }),
		"coarse.tif": with(func(r *goldenRaster) {
			r.width, r.height, r.pixel, r.value = 300, 234, 30, ramp(8)
		}),
		"zone32.tif": with(func(r *goldenRaster) {
			r.epsg, r.x, r.y, r.width, r.height, r.value = 32632, 45000, 5215000, 1200, 1400, ramp(9)
		}),
	}
	for name, r := range rasters {
		if err := os.WriteFile(filepath.Join(dir, name), r.encode(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	texts := map[string]string{
		"colors.txt": "0 0 0 0\n1 255 0 0\n2 0 255 0\n3 0 0 255\n4 255 255 0\n5 0 255 255\n",
		"fields.geojson": `{"type":"FeatureCollection","crs":{"type":"name","properties":{"name":"urn:ogc:def:crs:EPSG::32631"}},"features":[
{"type":"Feature","properties":{"class":3},"geometry":{"type":"Polygon","coordinates":[[[501003,5199007],[505011,5199512],[504013,5196017],[501003,5199007]]]}},
{"type":"Feature","properties":{"class":7},"geometry":{"type":"LineString","coordinates":[[500111,5194011],[508017,5198511]]}}]}`,
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// encode returns the raster as a little-endian TIFF with one strip, pixels interleaved.
func (r goldenRaster) encode() []byte {
	order := binary.LittleEndian
	size := map[string]int{"u1": 1, "u2": 2, "i2": 2, "f4": 4}[r.kind]
	var pixels bytes.Buffer
	for row := range r.height {
		for col := range r.width {
			for band := range r.bands {
				v := r.value(band, row, col)
				switch r.kind {
				case "u1":
					pixels.WriteByte(uint8(v))
				case "u2":
					_ = binary.Write(&pixels, order, uint16(v))
				case "i2":
					_ = binary.Write(&pixels, order, int16(v))
				case "f4":
					_ = binary.Write(&pixels, order, float32(v))
				}
			}
		}
	}
	type tag struct {
		id, kind uint16
		count    int
		data     []byte
	}
	short := func(id uint16, v ...uint16) tag {
		return tag{id, 3, len(v), appendLE(nil, v)}
	}
	long := func(id uint16, v uint32) tag { return tag{id, 4, 1, appendLE(nil, []uint32{v})} }
	double := func(id uint16, v ...float64) tag { return tag{id, 12, len(v), appendLE(nil, v)} }
	repeat := func(v uint16) []uint16 {
		list := make([]uint16, r.bands)
		for i := range list {
			list[i] = v
		}
		return list
	}
	format := map[string]uint16{"u1": 1, "u2": 1, "i2": 2, "f4": 3}[r.kind]
	photometric := uint16(1)
	if r.bands == 3 {
		photometric = 2
	}
	tags := []tag{
		short(256, uint16(r.width)), short(257, uint16(r.height)), short(258, repeat(uint16(size*8))...), short(259, 1),
		short(262, photometric), long(273, 8), short(277, uint16(r.bands)), short(278, uint16(r.height)),
		long(279, uint32(pixels.Len())), short(284, 1), short(339, repeat(format)...),
		double(33550, r.pixel, r.pixel, 0), double(33922, 0, 0, 0, r.x, r.y, 0),
		short(34735, 1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, r.epsg),
	}
	if r.nodata != "" {
		tags = append(tags, tag{42113, 2, len(r.nodata) + 1, append([]byte(r.nodata), 0)})
	}
	for pixels.Len()%2 != 0 {
		pixels.WriteByte(0)
	}
	directory := 8 + pixels.Len()
	out := append([]byte("II*\x00"), appendLE(nil, []uint32{uint32(directory)})...)
	out = append(out, pixels.Bytes()...)
	out = append(out, appendLE(nil, []uint16{uint16(len(tags))})...)
	extra := directory + 2 + 12*len(tags) + 4
	var tail []byte
	for _, g := range tags {
		out = append(out, appendLE(nil, []uint16{g.id, g.kind})...)
		out = append(out, appendLE(nil, []uint32{uint32(g.count)})...)
		if len(g.data) <= 4 {
			out = append(out, append(g.data, make([]byte, 4-len(g.data))...)...)
			continue
		}
		out = append(out, appendLE(nil, []uint32{uint32(extra + len(tail))})...)
		tail = append(tail, g.data...)
		if len(tail)%2 != 0 {
			tail = append(tail, 0)
		}
	}
	return append(append(out, 0, 0, 0, 0), tail...)
}

func appendLE[T uint16 | uint32 | float64](b []byte, values []T) []byte {
	for _, v := range values {
		b, _ = binary.Append(b, binary.LittleEndian, v)
	}
	return b
}
