package geotiff

import (
	"fmt"
	"math"

	"leat/internal/tiff"
	"leat/ndarray"
)

// conversion is the way in which stored samples become pixels.
type conversion uint8

const (
	convNone  conversion = iota // none
	convBits                    // packed bits, most significant first, rows padded to bytes
	convHalf                    // float16 to float32
	convCInt2                   // pairs of int16 to complex64
	convCInt4                   // pairs of int32 to complex128
)

// maxTileBytes bounds one decoded tile or strip. Uncompressed ones are read by rows and not
// bounded.
const maxTileBytes = math.MaxInt32

// image describes how the pixels of one directory are stored.
type image struct {
	*container
	width, height int
	spp           int // samples per pixel: the number of bands
	bits          int // of one sample
	format        int
	pixel         ndarray.DType // type that Read returns
	stored        string        // name of the stored type if it differs
	conv          conversion
	size          int // bytes of a stored sample; 0 for packed bits

	tiled                  bool
	tileW, tileH           int
	tilesAcross, tilesDown int
	planar                 bool // one plane per band
	compression            int
	predictor              int // 1 if the codec allows none
	reverseBits            bool
	photometric            int
	extra                  []uint64 // ExtraSamples
	colorMap               []uint64
	table                  tileTable
	unreadable             error // why the pixels can't be read; nil if they can
	perPixel               int   // samples of a pixel in one tile: spp or 1
	rowBytes               int   // of one stored row of a tile
	reduced, isMask        bool
	warnings               []string // what is ignored or read differently
}

// newImage returns the layout of d. If it is only unsupported, the error is kept in unreadable, so
// that the file can still be described.
func newImage(d *directory) (*image, error) {
	im := &image{container: d.container}
	var v [12]uint64
	for i, q := range [...]struct {
		tag uint16
		def uint64
	}{{tiff.TagImageWidth, 0}, {tiff.TagImageLength, 0}, {tiff.TagSamplesPerPixel, 1},
		{tiff.TagCompression, tiff.CompressionNone},
		{tiff.TagPlanarConfig, tiff.PlanarPixel},
		{tiff.TagPredictor, 1}, {tiff.TagFillOrder, 1}, {tiff.TagPhotometric, tiff.PhotometricMinIsBlack},
		{tiff.TagTileWidth, 0},
		{tiff.TagTileLength, 0},
		{tiff.TagRowsPerStrip, math.MaxUint32}, {tiff.TagNewSubfileType, 0}} {
		var err error
		if v[i], err = d.uint(q.tag, q.def); err != nil {
			return nil, err
		}
	}
	width, height, spp, tileW, tileH, rows := v[0], v[1], v[2], v[8], v[9], v[10]
	if width == 0 || height == 0 || width > math.MaxInt32 || height > math.MaxInt32 {
		return nil, d.damaged("an image of %d x %d pixels", width, height)
	}
	if spp == 0 || spp > math.MaxUint16 {
		return nil, d.damaged("%d samples per pixel", spp)
	}
	im.width, im.height, im.spp = int(width), int(height), int(spp)
	im.compression, im.photometric = int(min(v[3], math.MaxInt32)), int(min(v[7], math.MaxInt32))
	im.planar = v[4] == tiff.PlanarBand && spp > 1
	im.reverseBits = v[6] == 2
	im.reduced, im.isMask = v[11]&tiff.SubfileReduced != 0, v[11]&tiff.SubfileMask != 0
	if v[4] != tiff.PlanarBand && v[4] != tiff.PlanarPixel {
		return nil, d.damaged("planar configuration %d", v[4])
	}
	if err := im.sampleType(d); err != nil {
		return nil, err
	}
	im.perPixel = im.spp
	if im.planar {
		im.perPixel = 1
	}

	// As in libtiff, a file is tiled if it has a tile size, whichever tags hold the offsets.
	_, wide := d.fields[tiff.TagTileWidth]
	_, long := d.fields[tiff.TagTileLength]
	im.tiled = wide || long
	if im.tiled {
		if tileW == 0 || tileH == 0 || tileW > math.MaxInt32 || tileH > math.MaxInt32 {
			return nil, d.damaged("tiles of %d x %d pixels", tileW, tileH)
		}
	} else {
		if rows == 0 {
			return nil, d.damaged("strips without rows")
		}
		tileW, tileH = width, min(rows, height)
	}
	im.tileW, im.tileH = int(tileW), int(tileH)
	im.tilesAcross = (im.width + im.tileW - 1) / im.tileW
	im.tilesDown = (im.height + im.tileH - 1) / im.tileH
	rowBits := tileW * uint64(im.perPixel) * uint64(im.bits) // < 2^31 * 2^16 * 2^8
	im.rowBytes = int((rowBits + 7) / 8)

	im.predictor = 1
	switch im.compression {
	case tiff.CompressionLZW, tiff.CompressionDeflate, tiff.CompressionOldDeflate, tiff.CompressionZstd:
		im.predictor = int(min(v[5], 99))
	}
	var err error
	if im.extra, err = d.uints(tiff.TagExtraSamples); err != nil {
		return nil, err
	}
	if im.colorMap, err = d.uints(tiff.TagColorMap); err != nil {
		return nil, err
	}
	if im.unreadable == nil {
		im.unreadable = im.checkCoding()
	}
	if im.unreadable == nil {
		im.unreadable = im.table.init(d, im)
	}
	return im, nil
}

// sampleKind says how samples become pixels.
type sampleKind struct {
	pixel  ndarray.DType
	conv   conversion
	stored string // name of the stored type if it differs
}

// sampleKinds holds the kinds by sample format and bits, except packed bits.
var sampleKinds = map[[2]int]sampleKind{
	{tiff.FormatUint, 8}: {pixel: ndarray.Uint8}, {tiff.FormatUint, 16}: {pixel: ndarray.Uint16},
	{tiff.FormatUint, 32}: {pixel: ndarray.Uint32}, {tiff.FormatUint, 64}: {pixel: ndarray.Uint64},
	{tiff.FormatInt, 8}: {pixel: ndarray.Int8}, {tiff.FormatInt, 16}: {pixel: ndarray.Int16},
	{tiff.FormatInt, 32}: {pixel: ndarray.Int32}, {tiff.FormatInt, 64}: {pixel: ndarray.Int64},
	{tiff.FormatFloat, 16}: {ndarray.Float32, convHalf, "float16"}, {tiff.FormatFloat, 32}: {pixel: ndarray.Float32},
	{tiff.FormatFloat, 64}: {pixel: ndarray.Float64}, {tiff.FormatComplex, 64}: {pixel: ndarray.Complex64},
	{tiff.FormatComplex, 128}:   {pixel: ndarray.Complex128},
	{tiff.FormatComplexInt, 32}: {ndarray.Complex64, convCInt2, "int16 complex"},
	{tiff.FormatComplexInt, 64}: {ndarray.Complex128, convCInt4, "int32 complex"},
}

// sampleType sets the types of the stored samples and of the pixels.
func (im *image) sampleType(d *directory) error {
	one := func(tag uint16, def uint64) (int, error) {
		v, err := d.uints(tag)
		if err != nil || len(v) == 0 {
			return int(def), err
		}
		for _, o := range v[:min(len(v), im.spp)] {
			if o != v[0] && im.unreadable == nil {
				im.unreadable = d.unsupported("a file with bands of different types", "")
			}
		}
		return int(min(v[0], math.MaxInt32)), nil
	}
	var err error
	if im.bits, err = one(tiff.TagBitsPerSample, 1); err != nil {
		return err
	}
	if im.format, err = one(tiff.TagSampleFormat, tiff.FormatUint); err != nil {
		return err
	}
	if im.bits == 0 || im.bits > 128 {
		return d.damaged("%d bits per sample", im.bits)
	}
	if im.bits%8 == 0 {
		im.size = im.bits / 8
	}
	format := im.format
	if format == tiff.FormatVoid {
		format = tiff.FormatUint
	}
	kind, ok := sampleKinds[[2]int{format, im.bits}]
	if !ok && format == tiff.FormatUint && im.bits < 16 {
		kind = sampleKind{ndarray.Uint8, convBits, fmt.Sprintf("uint%d", im.bits)}
		if im.bits > 8 {
			kind.pixel = ndarray.Uint16
		}
	}
	im.pixel, im.conv, im.stored = kind.pixel, kind.conv, kind.stored
	if im.pixel == ndarray.NoType {
		im.pixel, im.stored = ndarray.Uint8, fmt.Sprintf("%d-bit samples of format %d", im.bits, im.format)
		if im.unreadable == nil {
			im.unreadable = d.unsupported(fmt.Sprintf("a file with %d-bit samples of format %d", im.bits, im.format),
				"")
		}
	}
	return nil
}

// wordSize returns the size of the machine words that byte order and predictor apply to.
func (im *image) wordSize() int {
	switch im.format {
	case tiff.FormatComplexInt, tiff.FormatComplex:
		return im.size / 2
	}
	return im.size
}

// checkCoding returns an error if this package cannot decode the pixels.
func (im *image) checkCoding() error {
	if name := tiff.CompressionName(im.compression); !tiff.Decodes(im.compression) {
		return im.unsupported(name+" compression", "-co COMPRESS=DEFLATE ")
	}
	switch im.photometric {
	case tiff.PhotometricCMYK, tiff.PhotometricYCbCr, tiff.PhotometricCIELab, tiff.PhotometricICCLab,
		tiff.PhotometricITULab, tiff.PhotometricLogL,
		tiff.PhotometricLogLuv:
		return im.unsupported(fmt.Sprintf("colours stored as photometric %d (not RGB or grey)", im.photometric),
			"-co COMPRESS=DEFLATE -co PHOTOMETRIC=RGB ")
	}
	switch im.predictor {
	case 1:
	case 2:
		switch im.bits {
		case 8, 16, 32, 64:
		default:
			return im.unsupported(fmt.Sprintf("predictor 2 on %d-bit samples", im.bits), "-co COMPRESS=DEFLATE ")
		}
	case 3:
		if im.format != tiff.FormatFloat {
			return im.unsupported("predictor 3 on samples that are not floats", "-co COMPRESS=DEFLATE ")
		}
	default:
		return im.unsupported(fmt.Sprintf("predictor %d", im.predictor), "-co COMPRESS=DEFLATE ")
	}
	if !im.direct() && im.tileBytes(im.tileH) > maxTileBytes {
		return im.unsupported(fmt.Sprintf("a strip or tile of %d bytes", im.tileBytes(im.tileH)),
			"-co TILED=YES -co COMPRESS=DEFLATE ")
	}
	return nil
}

// direct reports whether the file stores the pixels unencoded, so that rows can be read without the
// rest of their tile.
func (im *image) direct() bool {
	return im.compression == tiff.CompressionNone && im.conv != convBits && !im.reverseBits
}

// inflates reports whether two tiles of the image can be inflated at once.
func (im *image) inflates() bool {
	deflate := im.compression == tiff.CompressionDeflate || im.compression == tiff.CompressionOldDeflate
	return deflate && im.tileBytes(im.tileH) <= tiff.PairBytes
}

// tileBytes returns the decoded size of rows of a tile, saturating.
func (im *image) tileBytes(rows int) int64 {
	if int64(im.rowBytes) > math.MaxInt64/int64(rows) {
		return math.MaxInt64
	}
	return int64(im.rowBytes) * int64(rows)
}

// tileRows returns the number of stored rows of the tiles of a tile row. The last strip ends with
// the image.
func (im *image) tileRows(tileRow int) int {
	if im.tiled {
		return im.tileH
	}
	return im.imageRows(tileRow)
}

// imageRows returns the number of rows of a tile row that are inside the image.
func (im *image) imageRows(tileRow int) int {
	return min(im.tileH, im.height-tileRow*im.tileH)
}
