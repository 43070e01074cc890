package resolve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/internal/gdal"
	"leat/internal/storeurl"
	"leat/raster"
)

// Warping is how a file off the grid is warped onto it when it is read.
type Warping struct {
	jobspec.Warp
	Original       raster.Info // the file's own metadata
	XScale, YScale float64     // GDAL's options XSCALE and YSCALE
}

// Limits of the memory of one read of a warped file, in addition to its block: more memory avoids
// reading parts of the file twice.
const (
	leastWarpBytes = 1 << 20
	mostWarpBytes  = 64 << 20
)

// warpBytes returns the memory of each read of a warped file.
func warpBytes(job *jobspec.Job) int64 {
	workers, readers := job.Concurrency.Counts()
	return min(max(job.BudgetBytes/8/int64(max(readers, workers)), leastWarpBytes), mostWarpBytes)
}

// GDALCacheBytes returns the size of GDAL's cache in a process with this many readers, each of
// which has its own handles.
func (in *Inputs) GDALCacheBytes(budget int64, readers int) int64 {
	var all int64
	for _, f := range in.Files {
		if f.ByGDAL() && len(f.Layers) > 0 {
			i := f.Info
			if f.Warp != nil {
				i = &f.Warp.Original
			}
			for _, b := range i.Bands {
				all += int64(i.Grid.Width) * int64(i.Grid.Height) * int64(b.Type.Size())
			}
		}
	}
	return min(all*int64(max(1, readers)), max(budget/8, 8<<20), 256<<20)
}

// ByGDAL reports whether GDAL reads the file.
func (f *File) ByGDAL() bool {
	_, ok := f.Source.(*gdal.File)
	return ok || f.Warp != nil
}

// BoundGDAL limits GDAL's cache to the planned size, unless the user has set its size.
func BoundGDAL(bytes int64) error {
	if bytes <= 0 || os.Getenv("GDAL_CACHEMAX") != "" {
		return nil
	}
	return gdal.SetCacheBytes(bytes)
}

// validateWarps returns the errors in the warping options of a job, which need not warp.
func validateWarps(job *jobspec.Job) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(job.Inputs)) {
		if method := job.Inputs[name].Resample; method != "" {
			if err := gdal.CheckMethod(method); errors.Is(err, gdal.ErrNotInstalled) {
				errs = append(errs, jobspec.Errorf("Input.Resample", "input %s: resampling by %s needs GDAL: %w",
					name, method, err))
			} else if err != nil {
				errs = append(errs, &outcome.JobError{Err: jobspec.Errorf("Input.Resample", "input %s: %w", name, err)})
			}
		}
	}
	if c := &job.Controls; c.BBox != nil && len(c.Extents) > 0 {
		errs = append(errs, &outcome.JobError{Err: jobspec.Errorf("Controls.BBox",
			"a bounding box and extents of rasters restrict the job, expected one of them")})
	}
	return errs
}

// warpedSource is a raster aligned to another grid.
type warpedSource interface {
	Offset() (col, row int) // its offset in that grid
	Scales() (x, y float64) // GDAL's options XSCALE and YSCALE
}

// place sets the file's offset from the grid ref, to which it is aligned.
func (f *File) place(ref raster.Grid) {
	if w, ok := f.Source.(warpedSource); ok && f.Warp != nil {
		col, row := w.Offset()
		f.ColOffset, f.RowOffset = -col, -row
		f.Warp.XScale, f.Warp.YScale = w.Scales()
		return
	}
	col, row, _ := ref.Transform.Invert(f.Info.Grid.Transform[0], f.Info.Grid.Transform[3])
	f.ColOffset, f.RowOffset = -round(col), -round(row)
}

// warpAll warps files that are off the grid onto it.
func warpAll(job *jobspec.Job, files []*File, ref raster.Grid, refName string) error {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	errs := make([]error, len(files))
	most := warpBytes(job)
	where := refName
	if job.Controls.Grid == nil && job.Controls.PixelSize[0] == 0 {
		where = "the grid of " + refName
	}
	for i, f := range files {
		g.Go(func() error {
			if err := f.warpOnto(job, ref, most); err != nil {
				errs[i] = fmt.Errorf("input %s: %s is not on %s: %s; it can't be warped: %w", f.Name, f.Path,
					where, offText(f.Info.Grid, ref), err)
			}
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

// warpOnto reopens the file, warped onto ref.
func (f *File) warpOnto(job *jobspec.Job, ref raster.Grid, most int64) error {
	spec := job.Inputs[f.Name]
	g := f.Info.Grid
	switch {
	case f.Version.Given:
		return jobspec.JobErrorf("", "it is an open raster (Input.Source), and GDAL, which warps, opens files by their names")
	case !g.HasTransform:
		return jobspec.JobErrorf("", "it is %w", outcome.ErrNotGeoreferenced)
	case !ref.HasTransform:
		return jobspec.JobErrorf("Controls.Reference", "the reference is %w", outcome.ErrNotGeoreferenced)
	case g.CRS.IsZero() && !ref.CRS.IsZero():
		return jobspec.JobErrorf("", "it has %w", outcome.ErrNoCRS)
	case ref.CRS.IsZero() && !g.CRS.IsZero():
		return jobspec.JobErrorf("", "the reference has %w", outcome.ErrNoCRS)
	}
	version, err := gdal.Version()
	if err != nil {
		return fmt.Errorf("that needs GDAL: %w", err)
	}
	texts, err := f.nodataTexts(spec)
	if err != nil {
		return err
	}
	method := cmp.Or(strings.ToLower(spec.Resample), "near")
	if OffGrid(g, ref) == "" { // its pixels are only moved
		method = "near"
	}
	f.Warp = &Warping{Warp: jobspec.Warp{Grid: jobspec.ExactGrid{Grid: ref}, Method: method,
		Nodata: texts, Overviews: spec.Overviews, NoMask: job.Controls.NoMask, MaxBytes: most, GDAL: version},
		Original: *f.Info}
	seen := f.Version
	open := f.openWarp
	if f.Remote != nil {
		open = f.openStaged
	}
	if err := open(); err != nil {
		f.Warp = nil
		return err
	}
	if f.Version.FileState != seen.FileState {
		return fmt.Errorf("%s was replaced or changed while the job was prepared: it is %w", f.Path, outcome.ErrBeingWritten)
	}
	spec.Nodata = nil // the warped raster includes the job's nodata
	f.Layers, f.Nodata, f.Masks = nil, nil, nil
	if err := f.resolve(spec, job.Controls.NoMask); err != nil {
		return err
	}
	f.place(ref)
	return nil
}

// nodataTexts returns the nodata of each band of the file, "" for the file's own.
func (f *File) nodataTexts(spec jobspec.Input) ([]string, error) {
	texts := make([]string, len(f.Info.Bands))
	if len(spec.Nodata) == 0 {
		return texts, nil
	}
	for i, l := range f.Layers {
		text := spec.Nodata[min(i, len(spec.Nodata)-1)]
		if at := slices.Index(f.Layers, l); at < i && texts[l-1] != text {
			return nil, jobspec.JobErrorf("Input.Nodata", "its band %d is read twice with different nodata, which can't be warped at once", l)
		}
		texts[l-1] = text
	}
	return texts, nil
}

func (w *Warping) options() *gdal.WarpOptions {
	return &gdal.WarpOptions{Grid: w.Grid.Grid, Method: w.Method, Nodata: w.Nodata, Overviews: w.Overviews,
		MaxBytes: w.MaxBytes, NoMask: w.NoMask}
}

// openWarp opens the file through GDAL by the job's name for it, in place of the open source, and
// records its version.
func (f *File) openWarp() error {
	local := LocalFile(f.From)
	name := f.From
	if storeurl.Is(name) {
		name = local
	}
	for range openings {
		before := LocalVersion(local)
		src, err := gdal.Warp(name, f.Warp.options())
		if err != nil {
			return err
		}
		version := versionOf(src, f.From)
		if f.Warp.Overviews && local != "" {
			if s, ok := stateOf(local + ".ovr"); ok {
				version.Add(".ovr", s)
			}
		}
		if sameVersion(&version, &before) {
			return f.replaceSource(src, version)
		}
		if err := src.Close(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s, or one of its sidecars, is %w", f.Path, outcome.ErrBeingWritten)
}

// replaceSource replaces the open source.
func (f *File) replaceSource(src raster.Source, version jobspec.FileVersion) error {
	old := f.Source
	if !f.Owned {
		old = nil
	}
	f.Source, f.Owned, f.Version = src, true, version
	if old != nil {
		return old.Close()
	}
	return nil
}

// Text describes for users how the file is warped.
func (w *Warping) Text() string {
	text := "by " + w.Method
	if w.Overviews {
		text += ", with its overviews"
	}
	if from := w.Original.Grid.CRS; !from.IsZero() && !from.Equal(w.Grid.CRS) {
		return "warped from " + from.String() + " " + text
	}
	return "warped " + text + ": " + offText(w.Original.Grid, w.Grid.Grid)
}

func (w *Warping) Describe() *jobspec.DescribedWarp {
	if w == nil {
		return nil
	}
	text, _ := json.Marshal(w.Grid) // the numbers of a grid that GDAL accepted are finite
	return &jobspec.DescribedWarp{Method: w.Method, Nodata: strings.Join(w.Nodata, ","), Overviews: w.Overviews,
		Grid: fmt.Sprintf("%x", sha256.Sum256(text))[:32], GDAL: w.GDAL}
}

// extentsBox returns the box around the job's extents in the CRS of ref, the grid that they
// restrict.
func extentsBox(job *jobspec.Job, ref raster.Grid) (box [4]float64, err error) {
	for i, g := range job.Controls.Extents {
		var b [4]float64
		switch {
		case g.HasTransform != ref.HasTransform:
			return box, &outcome.JobError{Err: jobspec.Errorf("Controls.Extents",
				"an extent can't be related to the grid: one is georeferenced and the other is not")}
		case g.CRS.IsZero() || ref.CRS.IsZero() || gdal.SameCRS(g.CRS, ref.CRS):
			b[0], b[1], b[2], b[3] = g.Bounds()
		default:
			if err := gdal.Available(); err != nil {
				return box, jobspec.Errorf("Controls.Extents", "extent: its CRS is %v and that of the grid %v, which needs GDAL: %w", g.CRS, ref.CRS, err)
			}
			if b, err = gdal.ExtentOn(g, ref); err != nil {
				return box, &outcome.JobError{Err: jobspec.Errorf("Controls.Extents", "extent: %w", err)}
			}
		}
		if i == 0 {
			box = b
			continue
		}
		box = [4]float64{min(box[0], b[0]), min(box[1], b[1]), max(box[2], b[2]), max(box[3], b[3])}
	}
	return box, nil
}

// Reopen opens the file in a worker as the run has opened it. mixed allows another version of GDAL.
func (f *File) Reopen(ctx context.Context, open Opener,
	w *jobspec.Warp, mixed bool) error {
	if w == nil {
		return f.open(ctx, open, f.From)
	}
	if version, err := gdal.Version(); err != nil {
		return fmt.Errorf("%s is warped, which needs GDAL, and here: %w", f.Path, err)
	} else if version != w.GDAL && !mixed {
		return jobspec.Errorf("Concurrency.AllowMixedBuilds",
			"%s is warped by GDAL, whose version is %s here and %s where the run is, so that pixels may differ", f.Path, version,
			w.GDAL)
	}
	if !storeurl.Is(f.From) || LocalFile(f.From) != "" {
		f.Warp = &Warping{Warp: *w}
		return f.openWarp()
	}
	if err := f.open(ctx, open, f.From); err != nil {
		return err
	}
	f.Warp = &Warping{Warp: *w}
	f.Warp.Original = *f.Source.Info()
	return f.openStaged()
}

// GDALBytes is the memory of libgdal once it is loaded and has opened a source: 51 MiB with GDAL
// 3.6 and its plugins.
const GDALBytes = 52 << 20

// LibraryBytes returns the memory of the libraries that the run loads for its inputs.
func (in *Inputs) LibraryBytes() int64 {
	for _, f := range in.Files {
		if f.Vector != nil || f.ByGDAL() {
			return GDALBytes
		}
	}
	return 0
}
