package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"leat/internal/gdal"
	"leat/internal/localpath"
	"leat/internal/preview"
	"leat/internal/storeurl"
	"leat/raster"
	"leat/stores"
)

// infoCommand is leat info.
func infoCommand() *cobra.Command {
	var asJSON, computed, formats bool
	var picture string
	var side int
	f := &storeFlags{stageDir: noStage}
	c := &cobra.Command{
		Use:                   "info FILE|URL... [options]",
		DisableFlagsInUseLine: true,
		Short:                 "Describe rasters and vectors",
		Long: `Info describes rasters: size, type, grid, how the pixels are stored, overviews, nodata and masks, names,
colour tables, the statistics that the file holds, and problems, such as missing overviews. Of formats that
GDAL reads it also shows attribute tables, names of values, and how to open each of several rasters in one file.

Of files of vectors, which are burned onto grids (leat apply -v), it lists layers and attributes.

Only headers and tables of tiles are read, unless --stats asks for every pixel. Rasters in buckets and
on web servers are given as s3://BUCKET/NAME, gs://, azblob:// or https://.`,
		Example: `  leat info scene.tif
  leat info --json *.tif | jq -r 'select(.cog | not) | .path'
  leat info --stats ndvi.tif
  leat info --formats HFA`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && !formats {
				return usagef("no file: give at least one, such as: leat info scene.tif")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, paths []string) error {
			if err := f.Finalize(); err != nil {
				return usageError{err}
			}
			switch {
			case cmd.Flags().Changed("preview-size") && picture == "":
				return usagef("--preview-size: needs --preview")
			case side < 1 || side > maxPreviewSide:
				return usagef("--preview-size %d: use 1 to %d pixels", side, maxPreviewSide)
			case picture != "":
				return writePreview(cmd.Context(), cmd.OutOrStdout(), f.stores(nil), paths, picture, side)
			}
			if formats {
				return showFormats(cmd.OutOrStdout(), paths, asJSON)
			}
			return runInfo(cmd.Context(), cmd.OutOrStdout(), f.stores(nil), paths, asJSON, computed)
		},
	}
	c.Flags().SortFlags = false
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a file and line")
	c.Flags().BoolVar(&computed, "stats", false,
		"compute minimum, maximum, mean, standard deviation and valid share from all pixels")
	c.Flags().BoolVar(&formats, "formats", false,
		"list the formats that GDAL reads and writes here, or show what can be said of those that are named instead of files, such as their creation options")
	c.Flags().StringVar(&picture, "preview", "",
		"`FILE.png`: write a quicklook of the raster instead of its description; - writes it to standard output")
	c.Flags().IntVar(&side, "preview-size", preview.DefaultSide, "`PIXELS`: the longest side of the quicklook has at most this length")
	f.AddFlags(c.Flags())
	return c
}

// maxPreviewSide is the maximum length of a side of a quicklook in pixels.
const maxPreviewSide = 16384

// previewToStdout is the value of --preview that writes the picture to standard output.
const previewToStdout = "-"

// writePreview writes a quicklook of one raster, whose longest side has at most side pixels. It
// closes in.
func writePreview(ctx context.Context, w io.Writer, in *stores.Stores, paths []string, picture string,
	side int) (err error) {
	defer func() { err = errors.Join(err, in.Close()) }()
	if len(paths) != 1 {
		return usagef("--preview %s: expected one file", picture)
	}
	if picture != previewToStdout {
		if err := (&showFlags{preview: picture}).Finalize(); err != nil {
			return usageError{err}
		}
		if err := checkSideFile(picture); err != nil {
			return fmt.Errorf("--preview %s: %w", picture, err)
		}
	}
	path, err := localName(paths[0])
	if err != nil {
		return err
	}
	if picture != previewToStdout && localpath.Absolute(path) == localpath.Absolute(picture) {
		return usagef("--preview %s is the raster: write to another file", picture)
	}
	src, err := in.Open(ctx, path)
	if err != nil {
		return err
	}
	defer src.Close()
	if picture == previewToStdout {
		p, err := preview.New(ctx, src, side)
		if err != nil {
			return err
		}
		return stdoutError(p.Encode(w))
	}
	if err := preview.Write(ctx, picture, src, side); err != nil {
		return fmt.Errorf("the preview %s could not be written: %w", picture, cause(err))
	}
	return nil
}

// runInfo describes every file that can be described; the error joins those of the others. It
// closes in.
func runInfo(ctx context.Context, w io.Writer, in *stores.Stores, paths []string, asJSON, computed bool) (err error) {
	defer func() { err = errors.Join(err, in.Close()) }()
	var errs []error
	shown := 0
	for _, path := range paths {
		var d infoText
		raster, err := infoOf(ctx, in, path, computed)
		d = raster
		if several := new(gdal.SubdatasetsError); errors.As(err, &several) {
			d, err = newInfoContainer(several), nil
		} else if err != nil {
			if v := vectorsOf(path); v != nil {
				d, err = v, nil
			}
		}
		if err != nil {
			errs = append(errs, err)
			if asJSON {
				if err := writeJSON(w, infoFailure{storeurl.Redact(path), errorText(err)}); err != nil {
					return stdoutError(err)
				}
			}
			continue
		}
		if raster != nil && raster.cut != nil {
			errs = append(errs, raster.cut)
		}
		if asJSON {
			err = writeJSON(w, d)
		} else {
			if shown++; shown > 1 {
				fmt.Fprintln(w)
			}
			err = d.text(w)
		}
		if err != nil {
			return stdoutError(err)
		}
	}
	return errors.Join(errs...)
}

// infoText is what info shows of a file.
type infoText interface{ text(w io.Writer) error }

// infoFailure is a file that could not be described, in --json.
type infoFailure struct {
	Path  string `json:"path"`
	Error string `json:"error"`
}

// infoOf opens and describes a raster.
func infoOf(ctx context.Context, in *stores.Stores, path string, computed bool) (*infoDoc, error) {
	path, err := localName(path)
	if err != nil {
		return nil, err
	}
	src, err := in.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	d := newInfoDoc(src)
	d.tables(src)
	// A *geotiff.File of internal/geotiff, or what embeds it.
	if f, ok := src.(interface{ CheckWhole(context.Context) error }); ok && d.Readable {
		if err := f.CheckWhole(ctx); err != nil && !errors.Is(err, raster.ErrFormat) {
			return nil, err
		} else if err != nil {
			d.Readable, d.Unreadable, d.cut = false, errorText(err), err
		}
	}
	if computed && d.cut == nil {
		if !d.Readable {
			return nil, fmt.Errorf("no statistics: %s", d.Unreadable)
		}
		all, err := computeStats(ctx, src)
		if err != nil {
			return nil, err
		}
		for i := range d.Bands {
			d.Bands[i].Statistics = all[i]
		}
	}
	return d, nil
}
