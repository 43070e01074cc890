package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leat/apply"
	"leat/stores"
)

// applyFlags are the options of leat apply as they are typed, by the groups of its help.
type applyFlags struct {
	inputFlags
	vectors vectorFlags
	outputFlags
	python pythonFlags
	gridFlags
	stores storeFlags
	runFlags
	remote workerFlags
	showFlags
	program programFlags
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

Inputs and outputs may be URLs: s3://BUCKET/NAME, gs://, azblob://, and https:// for inputs. If a job needs
less than half of an input, leat reads it in pieces. It copies others to a directory on the local disk that all runs
share.

Vectors given with -v are inputs of one band to expressions: they are burned once, onto the grid of the job,
whatever their own coordinate reference system.

Inputs must lie on one grid (same CRS, same pixel size, pixels on pixels), unless --reference, --grid or --pixel-size
says onto which grid others are warped, as they are read: to the pixel what gdalwarp -et 0 gives with the
XSCALE and YSCALE that --plan prints. That needs GDAL.

Outputs are GeoTIFFs, tiled, in the order of a cloud-optimized one, with statistics, histogram and overviews
inside, or files of another --format, written by GDAL. An output whose name ends in .gpkg or .geojson gets polygons
of connected pixels of equal value, made by GDAL. Outputs appear under their name only when they are whole. A
run that fails or is interrupted keeps what it has done in hidden files .NAME.leat-part: --resume goes on from
there, --unfinished DIR lists them, leat apply discard removes them.

Values marked [NAME=] hold for all outputs (or inputs), or for the one that is named, whatever is given for all. Such
options can be repeated, but two values for the same name are an error. Of an option that takes one value the last one
counts. Exit codes: 0 done, 1 failed, 2 a mistake in the command line, also one that only the files show, such as a band
that an input lacks. ^C, SIGTERM and SIGHUP end leat by that signal, after it has cleaned up.`,
		Example: `  leat apply -i red=B4.tif -i nir=B5.tif -o ndvi=ndvi.tif -e '(nir - red) / (nir + red)'
  leat apply -i t='2020*.tif' -o med=median.tif -e 'median(t)'
  leat apply -i s=scene.tif -o m=mean.tif -e '(s[1] + s[2]) / 2' --type uint16 --cog
  leat apply -i red=B4.tif -i pan=B8.tif -o x=x.tif -e 'pan / red' --reference red --resample pan=average
  leat apply -i t=temp.tif -v towns=towns.gpkg --burn towns=class -o out=t.tif -e 'towns > 2 ? t : nodata'
  leat apply -i a=dem.tif -o out=high.tif -e 'a > 1500 ? a : nodata' --preview high.png
  leat apply -i a=dem.tif -o high=high.gpkg -e 'a > 1500 ? 1 : nodata' --sieve 10
  leat apply --unfinished DIR
  leat apply discard DIR`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && !f.discard && !f.unfinished {
				if _, err := time.ParseDuration(args[0]); err == nil && f.remote.barrier > 0 {
					return usagef("--barrier %s: write --barrier=%s", args[0], args[0])
				}
				for _, o := range f.outputs {
					if hint, ok := swallowed[o]; ok {
						return usageError{hintedError{fmt.Errorf("-o %s: write it as NAME=FILE.tif, such as ndvi=ndvi.tif", o), hint}}
					}
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
			if len(args) == 0 && cmd.Flags().NFlag() == 0 {
				briefHelp(cmd.ErrOrStderr(), cmd)
			}
			return f.program.run(cmd, func() error { return runApply(cmd, f) })
		},
	}
	// Not that of the root alone: a job sets options before the configuration does.
	c.PersistentPreRunE = func(cmd *cobra.Command, args []string) error { return f.program.prepare(cmd, args) }
	f.AddFlags(c.Flags())
	completeJobOptions(c)
	c.AddCommand(discardCommand())
	return c
}

// AddFlags adds the options of leat apply.
func (f *applyFlags) AddFlags(fl *pflag.FlagSet) {
	fl.SortFlags = false
	f.inputFlags.AddFlags(fl)
	f.vectors.AddFlags(fl)
	f.outputFlags.AddFlags(fl)
	f.python.AddFlags(fl)
	f.gridFlags.AddFlags(fl)
	f.stores.AddFlags(fl)
	f.stores.addStageFlags(fl)
	f.runFlags.AddFlags(fl)
	f.remote.AddFlags(fl)
	f.showFlags.AddFlags(fl)
	f.program.AddFlags(fl)
	f.jobLists = f.program.lists
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
	in := f.stores.stores(f.program.logger(cmd.ErrOrStderr(), nil))
	err := f.run(cmd, in)
	if cerr := in.Close(); err == nil && cerr != nil {
		err = afterOutputs{cerr}
	}
	return err
}

func (f *applyFlags) run(cmd *cobra.Command, in *stores.Stores) error {
	job, partial, err := f.job(cmd.Context(), in)
	err = errors.Join(asUsage(err), f.checkSideFiles(job))
	if err != nil {
		// What else is wrong, of what could be read.
		return errors.Join(err, apply.Check(cmd.Context(), *job, partial))
	}
	if f.plan {
		if f.program.events != nil {
			return f.program.sendPlan(cmd.Context(), *job)
		}
		return showPlan(cmd.Context(), cmd.OutOrStdout(), *job, f.json)
	}
	f.program.receiveValues(job)
	items, err := f.prepareItems(cmd.Context(), in, job)
	if err != nil {
		return err
	}
	return f.execute(cmd, in, job, items)
}
