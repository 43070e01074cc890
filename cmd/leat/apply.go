package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// applyFlags are the options of leat apply as they are typed.
type applyFlags struct {
	inputs, outputs, exprs []string

	types, nodata, scales, offsets []string
	inputNodata, layers            []string
	creation                       []string

	cog                    bool
	overviews, ovMethod    string
	noStats, noHist, aux   bool
	names, tags            []string
	thematic               bool
	colors, unit           string
	noClobber              bool
	tempDir                string
	footprint, reference   string
	bbox, srcwin           string
	extents                []string
	overlap                int
	margin                 string
	window, memory         string
	noMask, unscale        bool
	collision              string
	workers, readers       int
	plan, json             bool
	preview, report, trace string
	quiet, verbose         bool
}

func applyCommand() *cobra.Command {
	f := &applyFlags{}
	c := &cobra.Command{
		Use:   "apply -i NAME=FILE ... -o NAME=FILE ... -e '[NAME=]EXPRESSION' ...",
		Short: "Compute rasters from rasters, block by block",
		Long: `Apply computes each output by an expression over the inputs, block by block, on all cores.

Names given with -i are what expressions see: a is all bands of one file, a[2] its second band. A name
given several times, or a pattern such as t='2020*.tif', is a list of files: t[1] is the first of them and
median(t) works over all. Pixels that are nodata, NaN, masked or outside a file are invalid and stay so
unless the expression says otherwise; the guide (docs/guide/expressions.md) has the whole table.

Inputs must lie on one grid (same CRS, same pixel size, pixels on pixels). Outputs are GeoTIFFs, tiled, in the
order of a cloud-optimised one, with statistics, histogram and overviews inside; they appear under their
name only when they are whole.

Options marked [NAME=] hold for all outputs, or for the one that is named; they can be repeated.`,
		Example: `  leat apply -i red=B4.tif -i nir=B5.tif -o ndvi=ndvi.tif -e '(nir - red) / (nir + red)'
  leat apply -i t='2020*.tif' -o med=median.tif -e 'median(t)'
  leat apply -i s=scene.tif -o m=mean.tif -e 'mean(s[1], s[2])' --type uint16 --cog
  leat apply -i a=dem.tif -o out=high.tif -e 'a > 1500 ? a : nodata' --preview high.png`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runApply(cmd, f) },
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.StringArrayVarP(&f.inputs, "input", "i", nil, "an input: `NAME=FILE`; again for a list of files or more inputs")
	fl.StringArrayVarP(&f.outputs, "output", "o", nil, "an output: `NAME=FILE.tif`")
	fl.StringArrayVarP(&f.exprs, "expression", "e", nil, "how an output is computed: `[NAME=]EXPRESSION`")
	fl.StringArrayVar(&f.types, "type", nil, "element `[NAME=]TYPE` of outputs, such as uint8 or float32; values are rounded and saturated, and those that were are counted (default: what the expression needs)")
	fl.StringArrayVar(&f.nodata, "nodata", nil, "nodata `[NAME=]VALUE` of outputs: a number, nan or none (default: by the rules of expressions)")
	fl.StringArrayVar(&f.scales, "scale", nil, "`[NAME=]NUMBER`: pixels are stored as (value - offset) / scale, and the file says so")
	fl.StringArrayVar(&f.offsets, "offset", nil, "`[NAME=]NUMBER`: see --scale")
	fl.StringArrayVar(&f.inputNodata, "input-nodata", nil, "`NAME=VALUE[,VALUE...]` instead of what the input's files say; one for all bands or one for each; none for none")
	fl.StringArrayVar(&f.layers, "layers", nil, "`NAME=BAND[,BAND...]`: the bands of an input to use, in this order")
	fl.StringArrayVar(&f.creation, "co", nil, "creation option `KEY=VALUE` in GDAL's names: COMPRESS (DEFLATE, ZSTD, LZW, PACKBITS, NONE), PREDICTOR (1, 2, 3), LEVEL, BLOCKSIZE, INTERLEAVE (BAND, PIXEL), BIGTIFF (YES, IF_NEEDED)")
	fl.BoolVar(&f.cog, "cog", false, "overviews as a cloud-optimised GeoTIFF has them: 2 4 8 ... down to 512 pixels")
	fl.StringVar(&f.overviews, "overviews", "", "overview levels as `2,4,8` (powers of two), or none (default: 4 8 16 ... while the smaller side stays above 128)")
	fl.StringVar(&f.ovMethod, "overview-method", "nearest", "how overviews are made: nearest, average or mode")
	fl.BoolVar(&f.noStats, "no-stats", false, "write no statistics and no histogram")
	fl.BoolVar(&f.noHist, "no-hist", false, "write no histogram")
	fl.BoolVar(&f.aux, "hist-aux", false, "write the histogram to FILE.aux.xml too, where GDAL and QGIS look for it")
	fl.StringArrayVar(&f.names, "names", nil, "layer names: `[NAME=]NAME[,NAME...]`")
	fl.BoolVar(&f.thematic, "thematic", false, "outputs are class maps (LAYER_TYPE=thematic)")
	fl.StringVar(&f.colors, "color-table", "", "text `FILE` of lines 'value red green blue [alpha]' (0 to 255) for outputs of uint8 or uint16")
	fl.StringVar(&f.unit, "unit", "", "`UNIT` of the values")
	fl.StringArrayVar(&f.tags, "tag", nil, "metadata item `KEY=VALUE` for outputs")
	fl.BoolVar(&f.noClobber, "no-clobber", false, "an output that exists is an error")
	fl.StringVar(&f.tempDir, "tmpdir", "", "`FOLDER` for unfinished outputs (default: beside each output)")
	fl.StringVar(&f.footprint, "footprint", "intersection", "the pixels to cover: intersection, union or reference")
	fl.StringVar(&f.reference, "reference", "", "`NAME` of the input whose grid is meant (default: the first by name)")
	fl.StringVar(&f.bbox, "bbox", "", "cover only pixels whose centres lie in `MINX,MINY,MAXX,MAXY` (coordinates of the grid)")
	fl.StringArrayVar(&f.extents, "extent", nil, "cover only what `FILE` covers; again for the box around several")
	fl.StringVar(&f.srcwin, "srcwin", "", "cover only the window `COLUMN,ROW,WIDTH,HEIGHT` of the footprint's pixels")
	fl.StringVar(&f.window, "window", "", "block size `N or WIDTHxHEIGHT`, rounded up to whole output tiles (default: planned from the memory)")
	fl.IntVar(&f.overlap, "overlap", 0, "margin in pixels around blocks; expressions do not look at neighbours, so it changes nothing for them")
	fl.StringVar(&f.margin, "margin", "nodata", "what stands in a margin beyond the data: nodata, reflect or nearest")
	fl.StringVar(&f.memory, "memory", "", "ceiling for the memory, as `SIZE` such as 500M or 2G (default: a quarter of the machine's)")
	fl.BoolVar(&f.noMask, "no-mask", false, "nodata, masks and alpha do not count: every pixel is valid")
	fl.BoolVar(&f.unscale, "unscale", false, "expressions see pixel*scale + offset of inputs that have them")
	fl.StringVar(&f.collision, "nodata-collision", "warn", "a valid result that equals nodata: warn or error")
	fl.IntVarP(&f.workers, "jobs", "j", 0, "workers that compute and encode (default: one per core)")
	fl.IntVar(&f.readers, "readers", 0, "goroutines that read ahead (default: as many as workers)")
	fl.BoolVar(&f.plan, "plan", false, "say what would be done, and do nothing")
	fl.StringVar(&f.preview, "preview", "", "write a quicklook of the (first) output to `FILE.png`")
	fl.StringVar(&f.report, "report", "", "write a page about the run to `FILE.html`")
	fl.StringVar(&f.trace, "trace", "", "write a timeline to `FILE.json` for Perfetto or chrome://tracing")
	fl.BoolVar(&f.json, "json", false, "events and results as JSON lines on standard output")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "say nothing but warnings and errors")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "report counts and quartiles of all stages")
	return c
}

// runApply turns the options into a job and runs it.
func runApply(cmd *cobra.Command, f *applyFlags) error {
	job, err := f.job()
	if err != nil {
		return usageError{err}
	}
	if f.plan {
		return showPlan(cmd.OutOrStdout(), *job, f.json)
	}
	if f.preview == "" && f.report == "" && f.trace == "" {
		return f.execute(cmd, job)
	}
	// What comes besides the outputs must not be found unwritable only when the work is done.
	var errs []error
	for _, path := range []string{f.preview, f.report, f.trace} {
		if err := checkSideFile(path, job); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return f.execute(cmd, job)
}
