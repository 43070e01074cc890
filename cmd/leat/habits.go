package main

import (
	"fmt"

	"leat/internal/lazyregexp"
)

// otherCommands maps words that other tools use for commands to those that leat may have there.
var otherCommands = map[string][]string{
	"list": {"ls"}, "rm": {"gc"}, "remove": {"gc"}, "delete": {"gc"}, "clean": {"gc"}, "prune": {"gc"}, "purge": {"gc"},
	"evict": {"gc"}, "status": {"stat", "show"}, "describe": {"info", "stat", "show"}, "fetch": {"get"},
	"download": {"get"}, "copy": {"get"}, "verify": {"check"}, "add": {"put"}, "new": {"create"}, "calc": {"apply"},
	"gdal_calc": {"apply"}, "run": {"apply"}, "compute": {"apply"}, "warp": {"apply"}, "gdalinfo": {"info"},
	"print": {"show"}, "get": {"show"}, "example": {"demo"},
}

// otherTypes maps names of element types that other tools use, in lower case, to hints.
var otherTypes = map[string]string{
	"int": "did you mean int32?", "integer": "did you mean int32?", "long": "did you mean int64?",
	"short": "did you mean int16?", "ubyte": "did you mean uint8?", "uchar": "did you mean uint8?",
	"char": "did you mean uint8?", "sbyte": "did you mean int8?", "ushort": "did you mean uint16?",
	"uint": "did you mean uint32?", "half": "did you mean float16?", "single": "did you mean float32?",
	"real": "did you mean float32?", "bool": "did you mean uint8?", "boolean": "did you mean uint8?",
	"complex": noComplex, "complex64": noComplex, "complex128": noComplex, "cint16": noComplex, "cint32": noComplex,
	"cfloat32": noComplex, "cfloat64": noComplex,
}

const noComplex = "complex pixels can't be written: give the real and the imaginary part a band each"

// otherMethods maps names of resampling methods that other tools use, in lower case, to those of
// GDAL.
var otherMethods = map[string]string{
	"nn": "near", "nearestneighbour": "near", "nearestneighbor": "near", "nearest_neighbour": "near",
	"nearest_neighbor": "near", "linear": "bilinear", "bicubic": "cubic", "spline": "cubicspline", "mean": "average",
	"avg": "average", "majority": "mode", "minimum": "min", "maximum": "max",
}

// otherConstants maps names of values that other languages have, in lower case, to hints.
var otherConstants = map[string]string{
	"none": "write nodata for the invalid value", "null": "write nodata for the invalid value",
	"na": "write nodata for the invalid value", "nodata": "did you mean nodata?", "nan": "did you mean nan?",
	"true": "write 1 for true", "false": "write 0 for false", "infinity": "did you mean inf?", "inf": "did you mean inf?",
	"pi": "did you mean pi?", "m_pi": "did you mean pi?", "e": "write exp(1)",
}

// otherFunctions maps functions of other languages to hints. What the error itself says is not
// repeated.
var otherFunctions = map[string]string{
	"power": "write a ** b", "mod": "write a % b", "fmod": "write a % b", "fabs": "did you mean abs?",
	"rint": "did you mean round?", "logical_and": "write a and b", "logical_or": "write a or b",
	"logical_not": "write not a", "bitwise_and": "write a & b", "bitwise_or": "write a | b", "isin": "write a in [1, 2]",
	"int": "write floor(a); --type selects the type of the output", "select": "did you mean where?",
	"digitize": "did you mean classify?", "reclassify": "did you mean recode?", "isnull": "did you mean isnodata?",
	"setnull": "write c ? nodata : a", "con": "write c ? a : b",
}

// otbBand matches a band as OTB's BandMath names it.
var otbBand = lazyregexp.New(`^im[0-9]+b([0-9]+)$`)

// otherTools are options of gdal_calc, gdalwarp, gdal_translate and rio calc, and what leat apply
// has instead. An option with one dash is listed by the letters after it.
var otherTools = func() map[string]string {
	m := map[string]string{
		"calc":    "use -e 'EXPRESSION'",
		"outfile": "use -o NAME=FILE.tif", "dst_nodata": "use --nodata", "NoDataValue": "use --nodata",
		"hideNoData": "use --no-mask", "allBands": "an input without [N] stands for all its bands: use -e a",
		"debug": "use --verbose", "overwrite": "outputs are replaced unless --no-clobber is given",
		"projectionCheck": "inputs of different CRSs are an error unless --reference or --grid is given",
		"creation-option": "use --co", "output-type": "use --type", "datatype": "use --type", "dtype": "use --type",
		"output-format": "use --format", "driver": "use --format", "name": "use -i NAME=FILE",
		"masked": "pixels that are nodata are invalid in any case", "mem-limit": "use --memory SIZE",
		"threads": "use -j", "num-threads": "use -j", "chunks": "use --window for the size of blocks",
		"block": "use --window for the size of blocks", "block-size": "use --window for the size of blocks",
		"blocksize": "use --window for the size of blocks, --co BLOCKSIZE=N for that of tiles", "tile-size": "use --co BLOCKSIZE=N",
		"dst-crs": "use --crs and --pixel-size", "resampling": "use --resample", "bounds": "use --bbox",
		"compress": "use --co COMPRESS=NAME", "progress": "it is shown unless --quiet is given",

		"co": "use --co", "dstnodata": "use --nodata", "a_nodata": "use --nodata", "srcnodata": "use --input-nodata",
		"r": "use --resample", "te": "use --bbox or --grid", "tr": "use --pixel-size", "t_srs": "use --crs and --pixel-size",
		"tap": "use --pixel-size", "ts": "use --grid", "projwin": "use --bbox", "srcwin": "use --srcwin", "wm": "use --memory SIZE",
		"multi": "leat computes on all cores in any case", "b": "use --bands NAME=N", "scale": "use --scale or an expression",
		"ovr": "use --use-overviews", "cutline": "use --cutline",
	}
	for c := 'A'; c <= 'Z'; c++ {
		use := fmt.Sprintf("use -i %c=FILE", c)
		m[string(c)] = use
		m[string(c)+"_band"] = fmt.Sprintf("use %c[N] in the expression, or --bands %c=N", c, c)
	}
	return m
}()

// swallowed are options of GDAL's programs with one dash that are read as -o with a value.
var swallowed = map[string]string{"t": "-ot: use --type", "f": "-of: use --format", "verwrite": "-overwrite: outputs are replaced unless --no-clobber is given",
	"vr": "-ovr: use --use-overviews", "utsize": "-outsize: use --grid"}
