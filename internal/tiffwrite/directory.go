package tiffwrite

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"leat/internal/tiff"
	"leat/ndarray"
	"leat/raster"
)

// outEntry is a directory entry to be written.
type outEntry struct {
	tag, typ uint16
	count    int
	data     []byte // the values, little endian
}

// outDirectory is the directory of a level to be written.
type outDirectory struct {
	level   int
	entries []outEntry
	tiles   int
	bytes   int64 // of the encoded tiles, frames included
	// first is the offset of the first tile in the file; the others follow. Set by layout.place.
	first int64
}

func (d *outDirectory) shorts(tag uint16, values ...uint16) {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	d.entries = append(d.entries, outEntry{tag, tiff.TypeShort, len(values), b})
}

func (d *outDirectory) long(tag uint16, v uint32) {
	d.entries = append(d.entries, outEntry{tag, tiff.TypeLong, 1, binary.LittleEndian.AppendUint32(nil, v)})
}

func (d *outDirectory) doubles(tag uint16, values ...float64) {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	d.entries = append(d.entries, outEntry{tag, tiff.TypeDouble, len(values), b})
}

func (d *outDirectory) text(tag uint16, s string) {
	d.entries = append(d.entries, outEntry{tag, tiff.TypeASCII, len(s) + 1, append([]byte(s), 0)})
}

func (d *outDirectory) sort() {
	slices.SortFunc(d.entries, func(a, b outEntry) int { return cmp.Compare(a.tag, b.tag) })
}

// directory returns the directory of a level.
func (s *FileSpec) directory(level int) (*outDirectory, error) {
	d := &outDirectory{level: level}
	if level > 0 {
		d.long(tiff.TagNewSubfileType, tiff.SubfileReduced)
	}
	z := s.Size(level)
	d.long(tiff.TagImageWidth, uint32(z.Width))
	d.long(tiff.TagImageLength, uint32(z.Height))
	d.long(tiff.TagTileWidth, uint32(s.TileWidth))
	d.long(tiff.TagTileLength, uint32(s.TileHeight))
	bits, format := make([]uint16, s.Bands), make([]uint16, s.Bands)
	for i := range bits {
		bits[i], format[i] = uint16(8*s.Type.Size()), sampleFormat(s.Type)
	}
	d.shorts(tiff.TagBitsPerSample, bits...)
	d.shorts(tiff.TagSampleFormat, format...)
	c, err := compressionOf(s.Coding.Compression)
	if err != nil {
		return nil, err
	}
	d.shorts(tiff.TagCompression, c.tag)
	if p := s.Coding.Predictor; p > 1 {
		d.shorts(tiff.TagPredictor, uint16(p))
	}
	d.shorts(tiff.TagSamplesPerPixel, uint16(s.Bands))
	planar := uint16(tiff.PlanarBand)
	if s.PixelInterleave || s.Bands == 1 {
		planar = tiff.PlanarPixel
	}
	d.shorts(tiff.TagPlanarConfig, planar)
	photometric, extra := s.colors()
	d.shorts(tiff.TagPhotometric, photometric)
	if len(extra) > 0 {
		d.shorts(tiff.TagExtraSamples, extra...)
	}
	if photometric == tiff.PhotometricPalette {
		d.shorts(tiff.TagColorMap, colorMap(s.BandInfo[0].Colors, s.Type)...)
	}
	if s.Nodata != nil {
		d.text(tiff.TagGDALNodata, nodataText(*s.Nodata))
	}
	if level == 0 {
		if xml := s.metadataXML(); xml != "" {
			d.text(tiff.TagGDALMetadata, xml)
		}
		if err := d.georeference(s.Grid); err != nil {
			return nil, err
		}
	}
	d.sort()
	return d, nil
}

func sampleFormat(t ndarray.DType) uint16 {
	switch {
	case t.IsSigned():
		return tiff.FormatInt
	case t.IsFloat():
		return tiff.FormatFloat
	case t.IsComplex():
		return tiff.FormatComplex
	}
	return tiff.FormatUint
}

// band returns the description of band i, counted from 0.
func (s *FileSpec) band(i int) raster.Band {
	if s.BandInfo == nil {
		return raster.Band{}
	}
	return s.BandInfo[i]
}

// colors returns the photometric interpretation and the meanings of the extra samples.
func (s *FileSpec) colors() (photometric uint16, extra []uint16) {
	own := 1
	photometric = tiff.PhotometricMinIsBlack
	switch {
	case s.Bands == 1 && s.band(0).Colors != nil:
		photometric = tiff.PhotometricPalette
	case s.isRGB():
		photometric, own = tiff.PhotometricRGB, 3
	}
	for i := own; i < s.Bands; i++ {
		e := uint16(tiff.ExtraUnspecified)
		if s.band(i).Color == raster.ColorAlpha {
			e = tiff.ExtraUnassociated
		}
		extra = append(extra, e)
	}
	return photometric, extra
}

// isRGB reports whether the file is a colour image: its first bands are red, green and blue, of a
// type that is displayed directly.
func (s *FileSpec) isRGB() bool {
	return s.Bands >= 3 && (s.Type == ndarray.Uint8 || s.Type == ndarray.Uint16) &&
		s.band(0).Color == raster.ColorRed && s.band(1).Color == raster.ColorGreen &&
		s.band(2).Color == raster.ColorBlue
}

// colorMap returns a colour table over all values of the type: all reds, then greens, then blues,
// of 16 bits. TIFF has no alpha there.
func colorMap(colors []raster.RGBA, t ndarray.DType) []uint16 {
	n := 1 << (8 * t.Size())
	m := make([]uint16, 3*n)
	for i, c := range colors {
		m[i], m[n+i], m[2*n+i] = uint16(c.R)*257, uint16(c.G)*257, uint16(c.B)*257
	}
	return m
}
