package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leat/apply"
	"leat/internal/demo"
	"leat/timing"
)

// demoCommand is leat demo.
func demoCommand() *cobra.Command {
	var size int
	c := &cobra.Command{
		Use:                   "demo [FOLDER] [options]",
		DisableFlagsInUseLine: true,
		Short:                 "Make a scene, compute its NDVI, and show what a run leaves behind",
		Long: `Demo makes a Sentinel-2-like scene of two bands in FOLDER (leat-demo unless given), the same on every machine,
runs leat apply on it, and leaves the NDVI, a quicklook and a report of the run. Files of these names in FOLDER are
replaced.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s: demo takes one folder", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "leat-demo"
			if len(args) == 1 {
				dir = args[0]
			}
			if size < 64 || size > 30000 {
				return usagef("--size %d: use 64 to 30000 pixels a side", size)
			}
			return runDemo(cmd, dir, size)
		},
	}
	c.Flags().IntVar(&size, "size", demo.BaseSize, "`N`: pixels a side, 64 to 30000 (default 5490)")
	return c
}

func runDemo(cmd *cobra.Command, dir string, size int) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("the folder %s can't be made: %w", dir, cause(err))
	}
	people := cmd.ErrOrStderr()
	fmt.Fprintf(people, "making a scene of two bands, %d x %d pixels of uint16, in %s\n", size, size, dir)
	bar := newProgress(people, chooseProgress(os.Stderr))
	red, nir, err := demo.WriteScene(cmd.Context(), dir, size, version,
		func(r *apply.Running) { showProgress(r, timing.New(), bar) })
	bar.finish(err)
	if err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	f := &applyFlags{}
	options := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	f.AddFlags(options)
	// Sentinel-2 adds 1000 to its reflectances; only the difference cancels it.
	args := []string{"-i", "red=" + red, "-i", "nir=" + nir, "-o", "ndvi=" + in("ndvi.tif"),
		"-e", "(nir - red) / (nir + red - 2000)", "--names", "NDVI", "--preview", in("ndvi.png"),
		"--report", in("report.html")}
	if err := options.Parse(args); err != nil {
		return err
	}
	fmt.Fprintf(people, "leat apply %s\n\n", commandLine(args))
	if err := runApply(cmd, f); err != nil {
		return err
	}
	fmt.Fprintf(people, "\nLook at:\n  %-*s   the quicklook\n  %-*s   the page about the run, for a browser\n  %-*s   for QGIS, or: leat info %s\n",
		len(f.report), f.preview, len(f.report), f.report, len(f.report), in("ndvi.tif"), in("ndvi.tif"))
	return nil
}
