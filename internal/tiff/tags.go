package tiff

// Tags of the TIFF 6.0 specification, its supplements, GeoTIFF 1.1 and GDAL.
const (
	TagNewSubfileType  = 254
	TagImageWidth      = 256
	TagImageLength     = 257
	TagBitsPerSample   = 258
	TagCompression     = 259
	TagPhotometric     = 262
	TagFillOrder       = 266
	TagStripOffsets    = 273
	TagSamplesPerPixel = 277
	TagRowsPerStrip    = 278
	TagStripByteCounts = 279
	TagPlanarConfig    = 284
	TagPredictor       = 317
	TagColorMap        = 320
	TagTileWidth       = 322
	TagTileLength      = 323
	TagTileOffsets     = 324
	TagTileByteCounts  = 325
	TagSubIFDs         = 330
	TagExtraSamples    = 338
	TagSampleFormat    = 339
	TagJPEGTables      = 347
	TagModelPixelScale = 33550
	TagModelTiepoint   = 33922
	TagRPC             = 50844 // RPCCoefficientTag
	TagModelTransform  = 34264
	TagGeoKeyDirectory = 34735
	TagGeoDoubleParams = 34736
	TagGeoASCIIParams  = 34737
	TagGDALMetadata    = 42112
	TagGDALNodata      = 42113
)

// Values of TagCompression.
const (
	CompressionNone       = 1
	CompressionLZW        = 5
	CompressionJPEG       = 7
	CompressionDeflate    = 8 // Adobe's number, the usual one
	CompressionPackBits   = 32773
	CompressionOldDeflate = 32946
	CompressionLERC       = 34887
	CompressionLZMA       = 34925
	CompressionZstd       = 50000
	CompressionWebP       = 50001
	CompressionJXL        = 50002
)

// Values of other tags.
const (
	PlanarPixel = 1 // PlanarConfiguration: samples of a pixel together
	PlanarBand  = 2 // one plane per band

	PhotometricMinIsWhite = 0
	PhotometricMinIsBlack = 1
	PhotometricRGB        = 2
	PhotometricPalette    = 3
	PhotometricMask       = 4
	PhotometricCMYK       = 5
	PhotometricYCbCr      = 6
	PhotometricCIELab     = 8
	PhotometricICCLab     = 9
	PhotometricITULab     = 10
	PhotometricLogL       = 32844
	PhotometricLogLuv     = 32845

	SubfileReduced = 1 // NewSubfileType bits
	SubfileMask    = 4

	FormatUint       = 1 // SampleFormat
	FormatInt        = 2
	FormatFloat      = 3
	FormatVoid       = 4
	FormatComplexInt = 5
	FormatComplex    = 6

	ExtraUnspecified  = 0 // ExtraSamples
	ExtraAssociated   = 1
	ExtraUnassociated = 2
)

// Types of directory entries.
const (
	TypeByte      = 1
	TypeASCII     = 2
	TypeShort     = 3
	TypeLong      = 4
	TypeRational  = 5
	TypeSByte     = 6
	TypeUndefined = 7
	TypeSShort    = 8
	TypeSLong     = 9
	TypeSRational = 10
	TypeFloat     = 11
	TypeDouble    = 12
	TypeIFD       = 13
	TypeLong8     = 16
	TypeSLong8    = 17
	TypeIFD8      = 18
)

// TypeSizes holds the size in bytes of one value of each entry type, 0 for unknown types.
var TypeSizes = [19]int{TypeByte: 1, TypeASCII: 1, TypeShort: 2, TypeLong: 4, TypeRational: 8, TypeSByte: 1,
	TypeUndefined: 1, TypeSShort: 2, TypeSLong: 4, TypeSRational: 8, TypeFloat: 4, TypeDouble: 8, TypeIFD: 4,
	TypeLong8: 8, TypeSLong8: 8, TypeIFD8: 8}

// Geo keys, named as in the specification (OGC 19-008r4), and their values.
const (
	GeoKeyModelType         = 1024
	GeoKeyRasterType        = 1025
	GeoKeyCitation          = 1026
	GeoKeyGeodeticCRS       = 2048
	GeoKeyGeodeticCitation  = 2049
	GeoKeyProjectedCRS      = 3072
	GeoKeyProjectedCitation = 3073

	GeoModelProjected  = 1
	GeoModelGeographic = 2
	GeoPixelIsArea     = 1
	GeoPixelIsPoint    = 2
	GeoUserDefined     = 32767 // other keys define the value
)
