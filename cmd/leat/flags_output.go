package main

import "github.com/spf13/pflag"

// outputFlags are the options of outputs and expressions.
type outputFlags struct {
	outputs, exprs                      []string // NAME=FILE, [NAME=]EXPRESSION
	types, nodata, scales, offsets      []string // [NAME=]VALUE
	formats, creation, names            []string // [NAME=]VALUE
	collision                           string
	overviews, ovMethod                 string
	cog, noStats, noHist, aux, thematic bool
	colors, unit                        string
	tags                                []string // KEY=VALUE
	noClobber                           bool
	tempDir                             string
}

// AddFlags adds the options.
func (f *outputFlags) AddFlags(fl *pflag.FlagSet) {
	fl.StringArrayVarP(&f.outputs, "output", "o", nil, "`NAME=FILE.tif`: an output, or the URL of an object to write")
	group(fl, "output", "Outputs")
	fl.StringArrayVarP(&f.exprs, "expression", "e", nil, "`[NAME=]EXPR`: how an output is computed")
	fl.StringArrayVar(&f.types, "type", nil,
		"`[NAME=]TYPE`: element type, such as uint8 or float32: values are rounded and saturated, and the saturated ones are counted (default: what the expression needs)")
	fl.StringArrayVar(&f.nodata, "nodata", nil,
		"`[NAME=]VALUE`: nodata value, a number, nan or none (default: that of the inputs where the type holds it, else nan or the end of the type's range)")
	fl.StringArrayVar(&f.scales, "scale", nil,
		"`[NAME=]NUMBER`: store (value - offset) / scale, and say so in the file")
	fl.StringArrayVar(&f.offsets, "offset", nil, "`[NAME=]NUMBER`: see --scale")
	fl.StringVar(&f.collision, "nodata-collision", "warn",
		"`WHAT`: warn (default) or error, where a valid result equals nodata")
	fl.StringArrayVar(&f.formats, "format", nil,
		"`[NAME=]FORMAT`: GDAL's name of the format to write, such as HFA, through GDAL (default: GTiff, leat's own GeoTIFF; leat info --formats lists others)")
	fl.StringArrayVar(&f.creation, "co", nil,
		"`[NAME=]KEY=VALUE`: creation option in GDAL's names: COMPRESS (DEFLATE, ZSTD, LZW, PACKBITS, NONE), PREDICTOR (1, 2, 3), LEVEL, BLOCKSIZE, INTERLEAVE (BAND, PIXEL), BIGTIFF (YES, IF_NEEDED); of another format (--format) those that leat info --formats FORMAT lists")
	fl.StringVar(&f.overviews, "overviews", "",
		"`N,N...`: overview levels, powers of two, or none (default: 4,8,16... while the smaller side stays above 128)")
	fl.BoolVar(&f.cog, "cog", false, "overviews as a cloud-optimised GeoTIFF has them: 2,4,8... down to 512 pixels")
	fl.StringVar(&f.ovMethod, "overview-method", "nearest",
		"`METHOD`: how overviews are made: nearest (default), average or mode")
	fl.BoolVar(&f.noStats, "no-stats", false, "write no statistics and no histogram")
	fl.BoolVar(&f.noHist, "no-histogram", false, "write no histogram")
	fl.BoolVar(&f.aux, "aux-xml", false, "write the histogram to FILE.aux.xml too, where GDAL and QGIS look for it")
	fl.StringArrayVar(&f.names, "names", nil, "`[NAME=]TEXT,...`: layer names, one for each band")
	fl.BoolVar(&f.thematic, "thematic", false, "the pixels are classes (LAYER_TYPE=thematic)")
	fl.StringVar(&f.colors, "color-table", "",
		"`FILE`: a text of lines 'value red green blue' (0 to 255) for outputs of uint8 or uint16")
	fl.StringVar(&f.unit, "unit", "", "`TEXT`: unit of the values")
	fl.StringArrayVar(&f.tags, "metadata", nil, "`KEY=VALUE`: metadata item")
	fl.BoolVar(&f.noClobber, "no-clobber", false, "an output that exists is an error")
	fl.StringVar(&f.tempDir, "tmpdir", "",
		"`FOLDER`: where unfinished outputs are kept, and vectors rasterised (default: the directory of each output; of URLs: the system's directory for temporary files)")
}
