package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leat/apply"
	"leat/stores"
)

// applyFlags are the options of leat apply as they are typed.
type applyFlags struct {
	inputs, outputs, exprs []string

	types, nodata, scales, offsets []string
	inputNodata, layers            []string
	creation, formats              []string

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
	serveAt                string
	quiet, verbose         bool
	resume, discard        bool
	unfinished             bool
	grid                   string
	resample, useOverviews []string

	stores  storeFlags
	remote  workerFlags
	vectors vectorFlags
}

func applyCommand() *cobra.Command {
	f := &applyFlags{}
	c := &cobra.Command{
		Use:                   "apply -i NAME=FILE... -o NAME=FILE.tif... -e '[NAME=]EXPRESSION'... [options]",
		DisableFlagsInUseLine: true,
		Short:                 "Compute rasters from rasters, block by block",
		Long: `Apply computes each output by an expression over the inputs, block by block, on all cores.

Names given with -i are what expressions see: a is all bands of one file, a[2] its second band. A name
given several times, or a pattern such as t='2020*.tif', is a list of files: t[1] is the first of them and
median(t) works over all. Pixels that are nodata, NaN, masked or outside a file are invalid and stay so
unless the expression says otherwise; the guide (docs/guide/expressions.md) has the whole table.

Inputs and outputs may be URLs: s3://BUCKET/NAME, gs://, azblob://, and https:// for inputs. An input of which
less than half is needed is read in pieces; others are brought to a folder on the local disk that all runs share.

Vectors given with -v are inputs of one band to expressions: they are burned once, onto the grid of the rasters (or
what else the grid is), in whatever coordinate reference system they are.

Inputs must lie on one grid (same CRS, same pixel size, pixels on pixels), unless --reference or --grid says
onto which others are warped, as they are read: to the pixel what gdalwarp -et 0 gives with the
XSCALE and YSCALE that --plan prints. That needs GDAL.

Outputs are GeoTIFFs, tiled, in the order of a cloud-optimised one, with statistics, histogram and overviews
inside, or files of another --format, written by GDAL. They appear under their name only when they are whole. A
run that fails or is interrupted keeps what it has done in hidden files .NAME.leat-part: --resume goes on from
there, --unfinished DIR lists them, leat apply discard removes them.

Values marked [NAME=] hold for all outputs, or for the one that is named; such options can be
repeated. Exit codes: 0 done, 1 failed, 2 a mistake in the command line. ^C, SIGTERM and SIGHUP end leat by that
signal, after it has cleaned up.`,
		Example: `  leat apply -i red=B4.tif -i nir=B5.tif -o ndvi=ndvi.tif -e '(nir - red) / (nir + red)'
  leat apply -i t='2020*.tif' -o med=median.tif -e 'median(t)'
  leat apply -i s=scene.tif -o m=mean.tif -e '(s[1] + s[2]) / 2' --type uint16 --cog
  leat apply -i red=B4.tif -i pan=B8.tif -o x=x.tif -e 'pan / red' --reference red --resample pan=average
  leat apply -i t=temp.tif -v towns=towns.gpkg --burn towns=class -o out=t.tif -e 'towns > 2 ? t : nodata'
  leat apply -i a=dem.tif -o out=high.tif -e 'a > 1500 ? a : nodata' --preview high.png
  leat apply --unfinished DIR
  leat apply discard DIR`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && !f.discard && !f.unfinished {
				if _, err := time.ParseDuration(args[0]); err == nil && f.remote.barrier > 0 {
					return usagef("--barrier %s: write --barrier=%s", args[0], args[0])
				}
				return usagef("%q is not an option: put an expression or a pattern that has blanks or * in quotes, as in -e 'a + b'", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.discard:
				return f.discardUnfinished(cmd, args)
			case f.unfinished:
				return f.listUnfinished(cmd, args)
			}
			return runApply(cmd, f)
		},
	}
	f.addFlags(c.Flags())
	c.AddCommand(discardCommand())
	return c
}

// discardCommand returns leat apply discard. It takes all options of leat apply, so that a command
// line can be repeated.
func discardCommand() *cobra.Command {
	f := &applyFlags{}
	c := &cobra.Command{
		Use:                   "discard [DIR...] [-o NAME=FILE.tif...]",
		DisableFlagsInUseLine: true,
		Hidden:                true, // the help of leat apply names it
		Short:                 "Remove what failed runs left",
		Long: `Discard removes the unfinished files that failed runs left of outputs (-o), or in whole directories. It accepts
the options of leat apply, so that its command line can be repeated.`,
		Example: `  leat apply discard .
  leat apply discard -o ndvi=ndvi.tif`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.discardUnfinished(cmd, args) },
	}
	f.addFlags(c.Flags())
	return c
}

// addFlags adds the options of leat apply.
func (f *applyFlags) addFlags(fl *pflag.FlagSet) {
	fl.SortFlags = false
	fl.StringArrayVarP(&f.inputs, "input", "i", nil,
		"`NAME=FILE`: an input, or the URL of one; the same name again makes a list of files")
	group(fl, "input", "Inputs")
	fl.StringArrayVar(&f.layers, "layers", nil, "`NAME=N,N...`: the bands of an input to use, in this order")
	fl.StringArrayVar(&f.inputNodata, "input-nodata", nil,
		"`NAME=V,V...`: nodata of an input instead of what its files say; one value for all bands, or one for each; none for none")
	fl.BoolVar(&f.noMask, "no-mask", false, "nodata, masks and alpha do not count: every pixel is valid")
	fl.BoolVar(&f.unscale, "unscale", false, "expressions see pixel*scale + offset of inputs that have them")

	f.vectors.add(fl)

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

	fl.StringVar(&f.footprint, "footprint", "",
		"`WHICH`: the pixels to cover: intersection of the inputs (default; with --grid: reference), union, or reference: those of the grid")
	group(fl, "footprint", "Grid")
	fl.StringVar(&f.reference, "reference", "",
		"`NAME`: the input, or another raster, whose grid is meant (default: the first input by name); inputs on other grids are warped onto it by GDAL")
	fl.StringVar(&f.grid, "grid", "", "`GRID`: the grid onto which inputs on others are warped: a raster that has it, or CRS,MINX,MINY,MAXX,MAXY,SIZE[,SIZEY] such as EPSG:32631,500000,5190000,509990,5200000,10; CRS may also be a raster, a file .prj or .wkt, or none")
	fl.StringArrayVar(&f.resample, "resample", nil,
		"`[NAME=]METHOD`: how an input is warped: near (default), bilinear, cubic, cubicspline, lanczos, average, rms, mode, min, max, median, q1 or q3")
	fl.StringArrayVar(&f.useOverviews, "use-overviews", nil,
		"`NAME`: an input may be warped from its overviews where they have the resolution that is needed (default: from its pixels)")
	fl.StringVar(&f.bbox, "bbox", "", "`X,Y,X,Y`: cover only pixels whose centres lie in a box: smallest x and y, largest x and y, in the grid's coordinates")
	fl.StringArrayVar(&f.extents, "extent", nil,
		"`FILE`: cover only what it covers, in whatever CRS; again for the box around several")
	fl.StringVar(&f.srcwin, "srcwin", "", "`COL,ROW,W,H`: cover only a window of the footprint's pixels")

	f.stores.add(fl)
	f.stores.addStage(fl)

	fl.IntVarP(&f.workers, "jobs", "j", 0, "`N`: workers that compute and encode (default: one per core)")
	group(fl, "jobs", "Running")
	fl.IntVar(&f.readers, "readers", 0, "`N`: readers that read ahead (default: as many as workers)")
	fl.StringVar(&f.memory, "memory", "",
		"`SIZE`: ceiling for the memory, such as 500M or 2G (default: a quarter of the machine's)")
	fl.StringVar(&f.window, "window", "",
		"`N`: size of blocks in pixels, or WIDTHxHEIGHT, rounded up to whole output tiles (default: planned from the memory)")
	fl.IntVar(&f.overlap, "overlap", 0, "`N`: margin in pixels around blocks; expressions do not look at neighbours, so it changes nothing for them")
	fl.StringVar(&f.margin, "margin", "nodata",
		"`WHAT`: what stands in a margin beyond the data: nodata (default), reflect or nearest")
	fl.BoolVar(&f.resume, "resume", false,
		"go on from what the same command left when it failed, was interrupted or killed: blocks that it has done are not done again")
	fl.BoolVar(&f.unfinished, "unfinished", false,
		"list the unfinished outputs in directories, leat apply --unfinished [DIR...] (default: the current one), and do nothing else")
	fl.BoolVar(&f.discard, "discard", false,
		"remove what failed runs left of the outputs (-o), or in whole directories, leat apply --discard DIR..., and do nothing else")

	f.remote.add(fl)

	fl.BoolVar(&f.plan, "plan", false, "show what would be done, and do nothing (also --dry-run)")
	group(fl, "plan", "Seeing it")
	fl.StringVar(&f.preview, "preview", "", "`FILE.png`: write a quicklook of the output that is first by name")
	fl.StringVar(&f.report, "report", "", "`FILE.html`: write a page about the run")
	fl.StringVar(&f.trace, "trace", "", "`FILE.json`: write a timeline for Perfetto or chrome://tracing")
	fl.StringVar(&f.serveAt, "serve", "",
		"`PORT`: show the run while it goes, as a page for a browser and as metrics for Prometheus, on this machine alone (127.0.0.1), or at HOST:PORT; 0: a free port")
	fl.BoolVar(&f.json, "json", false, "events and results as JSON lines on standard output")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "say nothing but warnings and errors")
	fl.BoolVar(&f.verbose, "verbose", false, "count and quartiles of every stage at the end")
	if err := fl.MarkHidden("discard"); err != nil { // the earlier form of leat apply discard
		panic(err)
	}
}

// asUsage makes each error in a tree of joined ones a mistake in the command line, unless it is
// about a file.
func asUsage(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var list []error
		for _, one := range joined.Unwrap() {
			list = append(list, asUsage(one))
		}
		if all := errors.Join(list...); all.Error() == err.Error() { // else it is a sentence with several causes
			return all
		}
	}
	if err == nil || errors.As(err, new(fileError)) {
		return err
	}
	return usageError{err}
}

// runApply turns the options into a job and runs it.
func runApply(cmd *cobra.Command, f *applyFlags) error {
	in := f.stores.stores(func(err error) { printWarning(cmd.ErrOrStderr(), err) })
	err := f.run(cmd, in)
	if cerr := in.Close(); err == nil && cerr != nil {
		err = afterOutputs{cerr}
	}
	return err
}

func (f *applyFlags) run(cmd *cobra.Command, in *stores.Stores) error {
	job, partial, err := f.job(cmd.Context(), in)
	job.Version, job.Resume = version, f.resume
	c, cerr := f.concurrency(cmd.Flags())
	if cerr == nil {
		c.Workers, c.Readers = max(0, c.Workers), max(0, c.Readers) // f.job reports negative ones
		job.Concurrency = c
	}
	errs := []error{err, cerr}
	if cmd.Flags().Changed("jobs") && f.workers == 0 {
		errs = append(errs, errors.New("-j 0: use 1 or more, or leave it out for one per core"))
	}
	err = errors.Join(asUsage(errors.Join(errs...)), f.checkSideFiles(job))
	if err != nil {
		// What else is wrong, of what could be read.
		return errors.Join(err, apply.Check(cmd.Context(), *job, partial))
	}
	if f.plan {
		return showPlan(cmd.Context(), cmd.OutOrStdout(), *job, f.json)
	}
	return f.execute(cmd, in, job)
}
