package geotiff

// Tags of the TIFF 6.0 specification, its supplements, GeoTIFF 1.1 and GDAL that this package reads
// or writes.
const (
	tagNewSubfileType  = 254
	tagImageWidth      = 256
	tagImageLength     = 257
	tagBitsPerSample   = 258
	tagCompression     = 259
	tagPhotometric     = 262
	tagFillOrder       = 266
	tagStripOffsets    = 273
	tagSamplesPerPixel = 277
	tagRowsPerStrip    = 278
	tagStripByteCounts = 279
	tagPlanarConfig    = 284
	tagPredictor       = 317
	tagColorMap        = 320
	tagTileWidth       = 322
	tagTileLength      = 323
	tagTileOffsets     = 324
	tagTileByteCounts  = 325
	tagSubIFDs         = 330
	tagExtraSamples    = 338
	tagSampleFormat    = 339
	tagJPEGTables      = 347
	tagModelPixelScale = 33550
	tagModelTiepoint   = 33922
	tagRPC             = 50844 // RPCCoefficientTag
	tagModelTransform  = 34264
	tagGeoKeyDirectory = 34735
	tagGeoDoubleParams = 34736
	tagGeoASCIIParams  = 34737
	tagGDALMetadata    = 42112
	tagGDALNodata      = 42113
)

// Values of tagCompression.
const (
	compressNone       = 1
	compressLZW        = 5
	compressJPEG       = 7
	compressDeflate    = 8 // Adobe's number, the usual one
	compressPackBits   = 32773
	compressOldDeflate = 32946
	compressLERC       = 34887
	compressLZMA       = 34925
	compressZstd       = 50000
	compressWebP       = 50001
	compressJXL        = 50002
)

// Values of other tags.
const (
	planarPixel = 1 // PlanarConfiguration: samples of a pixel together
	planarBand  = 2 // one plane per band

	photometricMinIsWhite = 0
	photometricMinIsBlack = 1
	photometricRGB        = 2
	photometricPalette    = 3
	photometricMask       = 4
	photometricYCbCr      = 6

	subfileReduced = 1 // NewSubfileType bits
	subfileMask    = 4

	formatUint       = 1 // SampleFormat
	formatInt        = 2
	formatFloat      = 3
	formatVoid       = 4
	formatComplexInt = 5
	formatComplex    = 6

	extraUnspecified  = 0 // ExtraSamples
	extraAssociated   = 1
	extraUnassociated = 2
)

// Types of directory entries.
const (
	typeByte      = 1
	typeASCII     = 2
	typeShort     = 3
	typeLong      = 4
	typeRational  = 5
	typeSByte     = 6
	typeUndefined = 7
	typeSShort    = 8
	typeSLong     = 9
	typeSRational = 10
	typeFloat     = 11
	typeDouble    = 12
	typeIFD       = 13
	typeLong8     = 16
	typeSLong8    = 17
	typeIFD8      = 18
)

// typeSizes holds the size in bytes of one value of each entry type, 0 for unknown types.
var typeSizes = [19]int{typeByte: 1, typeASCII: 1, typeShort: 2, typeLong: 4, typeRational: 8, typeSByte: 1,
	typeUndefined: 1,
	typeSShort:    2, typeSLong: 4, typeSRational: 8, typeFloat: 4, typeDouble: 8, typeIFD: 4, typeLong8: 8,
	typeSLong8: 8,
	typeIFD8:   8}
