package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leat/apply"
	"leat/internal/demo"
	"leat/internal/units"
	"leat/timing"
)

// demoCommand is leat demo.
func demoCommand() *cobra.Command {
	var o demoOptions
	c := &cobra.Command{
		Use:                   "demo [DIR] [options]",
		DisableFlagsInUseLine: true,
		Short:                 "Make a scene, compute its NDVI, and show what a run leaves behind",
		Long: `Demo makes a Sentinel-2-like scene in DIR (leat-demo unless given), the same on every machine: red (B04.tif),
near infrared (B08.tif) and the classes of its pixels (SCL.tif). It runs leat apply on the bands, and leaves the NDVI, a
quicklook and a report of the run. Files of these names in DIR are replaced.

With --dates N it makes scenes of N dates, five days apart, in DIR/2024-05-01, DIR/2024-05-06 and so on. Their
clouds differ, and more and more fields are harvested. The NDVI is that of the first.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s: demo takes one directory", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "leat-demo"
			if len(args) == 1 {
				dir = args[0]
			}
			if o.size < 64 || o.size > 30000 {
				return usagef("--size %d: use 64 to 30000 pixels a side", o.size)
			}
			if o.dates < 1 || o.dates > 12 {
				return usagef("--dates %d: use 1 to 12 dates", o.dates)
			}
			return runDemo(cmd, dir, o)
		},
	}
	c.Flags().IntVar(&o.size, "size", demo.BaseSize, "`N`: pixels a side, 64 to 30000 (default 5490)")
	c.Flags().IntVar(&o.dates, "dates", 1, "`N`: scenes of so many dates, 1 to 12, each in a directory of its own (default 1)")
	addQuiet(c.Flags(), &o.quiet)
	return c
}

// demoOptions are the options of leat demo.
type demoOptions struct {
	size, dates int
	quiet       bool
}

// people returns where the demo says what it does.
func (o demoOptions) people(cmd *cobra.Command) io.Writer {
	if o.quiet {
		return io.Discard
	}
	return cmd.ErrOrStderr()
}

func runDemo(cmd *cobra.Command, dir string, o demoOptions) error {
	scene, err := writeScenes(cmd, dir, o)
	if err != nil {
		return err
	}
	people := o.people(cmd)
	in := func(name string) string { return filepath.Join(dir, name) }
	f := &applyFlags{}
	options := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	f.AddFlags(options)
	// Sentinel-2 adds 1000 to its reflectances; only the difference cancels it.
	args := []string{"-i", "red=" + scene.Red, "-i", "nir=" + scene.NIR, "-o", "ndvi=" + in("ndvi.tif"),
		"-e", "(nir - red) / (nir + red - 2000)", "--names", "NDVI", "--preview", in("ndvi.png"),
		"--report", in("report.html")}
	if err := options.Parse(args); err != nil {
		return err
	}
	f.quiet = o.quiet
	fmt.Fprintf(people, "leat apply %s\n\n", commandLine(args))
	if err := runApply(cmd, f); err != nil {
		return err
	}
	fmt.Fprintf(people, "\nLook at:\n  %-*s   the quicklook\n  %-*s   the page about the run, for a browser\n  %-*s   for QGIS, or: leat info %s\n",
		len(f.report), f.preview, len(f.report), f.report, len(f.report), in("ndvi.tif"), in("ndvi.tif"))
	return nil
}

// writeScenes writes scenes of so many dates, and returns the first.
func writeScenes(cmd *cobra.Command, dir string, o demoOptions) (first *demo.Scene, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("the directory %s can't be made: %w", dir, cause(err))
	}
	people, mode := o.people(cmd), chooseProgress(os.Stderr)
	if o.quiet {
		mode = progressNone
	}
	for date := range o.dates {
		at := dir
		if o.dates > 1 {
			at = filepath.Join(dir, time.Date(2024, 5, 1+5*date, 0, 0, 0, 0, time.UTC).Format(time.DateOnly))
		}
		if err := os.MkdirAll(at, 0o777); err != nil {
			return nil, fmt.Errorf("the directory %s can't be made: %w", at, cause(err))
		}
		if date == 0 {
			fmt.Fprintf(people, "making %s of two bands and classes, %d x %d pixels, in %s\n", units.Count(o.dates, "scene"),
				o.size, o.size, dir)
		}
		bar := newProgress(people, mode)
		scene, err := demo.WriteScene(cmd.Context(), at, o.size, date, version,
			func(r *apply.Running) { showProgress(r, timing.New(), bar) })
		bar.finish()
		if err != nil {
			return nil, err
		}
		if date == 0 {
			first = scene
		}
	}
	return first, nil
}
