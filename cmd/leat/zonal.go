package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leat/apply"
	"leat/internal/terminal"
	"leat/stores"
)

// zonalFlags are the options of leat zonal as they are typed. Of those of leat apply it has the
// groups that AddFlags adds.
type zonalFlags struct {
	applyFlags
	zone zoneFlags
}

func zonalCommand() *cobra.Command {
	f := &zonalFlags{}
	c := &cobra.Command{
		Use:                   "zonal -i NAME=FILE... -z ZONES [-e '[NAME=]EXPRESSION'...] --stat LIST -o TABLE [options]",
		DisableFlagsInUseLine: true,
		Short:                 "Compute statistics of rasters within polygons or other zones",
		Long: `Zonal computes statistics of the pixels within each zone, in one pass over the rasters, and writes a table with
a row for each zone, or the polygons with their statistics. Zones are polygons, which may overlap, or the integers
of a raster.

The statistics are of each input, or of expressions over the inputs as in leat apply (-e), each of which is
a variable. Pixels that are nodata, NaN, masked or outside a file are invalid and do not count.

The columns of a table of one variable have the names of the statistics; with several variables they are
VARIABLE_STATISTIC, and with several bands VARIABLE_BAND_STATISTIC. Rows have the order of the zones in their
file. A zone without valid pixels has the count 0 and no other values.

The guide (docs/guide/zonal.md) has the rules of pixels at the edges of polygons and of each statistic. Inputs, grids,
stores, workers and resuming are those of leat apply (docs/guide/apply.md).

Exit codes: 0 done, 1 failed, 2 a mistake in the command line, also one that only the files show, such as an attribute
that the polygons lack.`,
		Example: `  leat zonal -i v=ndvi.tif -z fields.gpkg --by id --stat mean,std,count -o stats.csv
  leat zonal -i red=B4.tif -i nir=B8.tif -z fields.gpkg --by id -e '(nir - red) / (nir + red)' --stat p90 -o x.csv
  leat zonal -i c=landcover.tif -z parcels.shp --stat mode,variety,histogram --weights coverage -o classes.parquet
  leat zonal -i v=ndvi.tif -z fields.gpkg --by id --stat mean,p90 -o stats.gpkg
  leat zonal -i t=temperature.tif -z basins.tif --stat mean -o basins.csv`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("%q is not an option: put an expression that has blanks or * in quotes, as in -e 'a + b'", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().NFlag() == 0 {
				briefHelp(cmd.ErrOrStderr(), cmd)
			}
			return runZonal(cmd, f)
		},
	}
	f.AddFlags(c.Flags())
	completeJobOptions(c)
	return c
}

// AddFlags adds the options of leat zonal.
func (f *zonalFlags) AddFlags(fl *pflag.FlagSet) {
	fl.SortFlags = false
	f.inputFlags.AddFlags(fl)
	f.zone.AddFlags(fl)
	f.vectors.AddFlags(fl)
	f.gridFlags.AddFlags(fl)
	f.stores.AddFlags(fl)
	f.stores.addStageFlags(fl)
	f.runFlags.addRunning(fl)
	f.remote.AddFlags(fl)
	f.showFlags.addPlan(fl)
	f.showFlags.addShowing(fl)
}

// Finalize reads the values of all options, as far as they are right.
func (f *zonalFlags) Finalize() error {
	return errors.Join(f.stores.Finalize(), f.inputFlags.Finalize(), f.zone.Finalize(), f.vectors.Finalize(),
		f.gridFlags.Finalize(), f.runFlags.Finalize(), f.remote.Finalize(), f.showFlags.Finalize())
}

// runZonal turns the options into a job and runs it.
func runZonal(cmd *cobra.Command, f *zonalFlags) error {
	in := f.stores.stores(slog.New(&peopleHandler{w: cmd.ErrOrStderr()}))
	err := f.run(cmd, in)
	if cerr := errors.Join(f.zone.Close(), in.Close()); err == nil && cerr != nil {
		err = afterOutputs{cerr}
	}
	return err
}

func (f *zonalFlags) run(cmd *cobra.Command, in *stores.Stores) error {
	job, err := f.job(cmd, in)
	err = errors.Join(asUsage(err), f.checkSideFiles(job))
	if err != nil {
		return err
	}
	if f.plan {
		return showPlan(cmd.Context(), cmd.OutOrStdout(), *job, f.json)
	}
	return f.execute(cmd, in, job, nil)
}

// job returns the job that the options ask for.
func (f *zonalFlags) job(cmd *cobra.Command, in *stores.Stores) (*apply.Job, error) {
	ctx := cmd.Context()
	job := &apply.Job{Open: in.Open, Store: in, Inputs: map[string]apply.Input{}}
	var err error
	if len(f.inputs) == 0 && len(f.vectors.vectors) == 0 {
		err = errors.New("no input: give at least one -i NAME=FILE")
	}
	if err = errors.Join(err, f.Finalize()); err != nil {
		return job, err
	}
	if err := f.addInputs(ctx, job, in); err != nil {
		return job, err
	}
	f.runFlags.setOptions(job)
	job.Concurrency, err = f.concurrency()
	job.Controls.NoMask, job.Controls.Unscale = f.noMask, f.unscale
	warn := func(text string) {
		printMessages(cmd.ErrOrStderr(), warningPrefix, []message{{text: terminal.Text(text)}})
	}
	return job, errors.Join(err, f.gridFlags.setOptions(ctx, job), f.zone.addTo(ctx, job, warn), addTables(ctx, job),
		checkReplaced(job, optionFiles(job, &f.gridFlags, &f.inputFlags)))
}

// addInputs adds rasters and vectors.
func (f *zonalFlags) addInputs(ctx context.Context, job *apply.Job, in *stores.Stores) error {
	_, err := f.inputFlags.addTo(ctx, job, in)
	_, err1 := f.vectors.addTo(job)
	if err := errors.Join(err, err1, f.addCutline(job)); err != nil {
		return err
	}
	return errors.Join(f.vectors.setOptions(job), f.inputFlags.setOptions(job, &f.vectors), f.setTimes(ctx, job),
		f.setWarps(job))
}
