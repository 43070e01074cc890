package output

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"leat/apply/internal/spool"
	"leat/apply/outcome"
	"leat/internal/fault"
	"leat/internal/localpath"
	"leat/internal/stats"
	"leat/internal/tempfile"
	"leat/internal/tiffwrite"
	"leat/ndarray"
	"leat/objstore"
	"leat/raster"
)

// native is leat's own GeoTIFF.
type native struct{}

func (native) complete(o *Output) []error {
	s := &o.Spec
	var errs []error
	bad := func(field, value, format string, args ...any) {
		errs = append(errs, fmt.Errorf("output %s: %w", o.Name,
			&outcome.FieldError{Field: "Output." + field, Value: value, Err: fmt.Errorf(format, args...)}))
	}
	ext := strings.ToLower(filepath.Ext(s.Path))
	switch format := endings[ext]; {
	case s.Path == "":
		bad("Path", "", "no file is given")
	case ext == ".tif" || ext == ".tiff":
	case format == "VRT":
		bad("Path", "", "%s: a VRT holds no pixels, expected a name that ends in .tif", s.Label())
	case format != "" && !s.InStore():
		bad("Format", format, "%s: its ending is that of %s, expected .tif", s.Label(), format)
	default:
		bad("Path", "", "%s: the format is GeoTIFF, expected a name that ends in .tif", s.Label())
	}
	if len(s.Options) > 0 {
		bad("Options", "", "creation options of GeoTIFF are fields of the output (Compression, Predictor and so on), not its Options")
	}
	if s.Compression == "" {
		s.Compression = tiffwrite.Deflate
	}
	s.Compression = strings.ToLower(s.Compression)
	if err := (tiffwrite.Coding{Compression: s.Compression}).Check(ndarray.Uint8); err != nil {
		bad("Compression", "", "%w", err)
	}
	if n := len(s.Overviews); n > 0 && s.Overviews[n-1] > spool.MaxFusedFactor &&
		!slices.Contains(s.Overviews, spool.MaxFusedFactor) {
		bad("Overviews", "", "overview levels %s: levels above %d are made from level %d, which is missing", listText(s.Overviews),
			spool.MaxFusedFactor, spool.MaxFusedFactor)
	}
	return errs
}

func (native) find(*Output) error { return nil }

func (native) takeOverviews(_ *Output, factors []int) []int { return factors }

func (native) laterFactors() []int { return nil }

// candidates returns the codings that the options allow.
func (native) candidates(o *Output, t ndarray.DType) ([]tiffwrite.Coding, error) {
	list := tiffwrite.Candidates(t, o.Spec.Compression)
	if p := o.Spec.Predictor; p != 0 {
		want := tiffwrite.Coding{Compression: o.Spec.Compression, Predictor: p, Level: o.Spec.Level}
		for _, c := range list {
			if c.Predictor == p && o.Spec.Level == 0 {
				want.Level = c.Level // the last one of a predictor has the default level
			}
		}
		list = []tiffwrite.Coding{want}
	}
	for i := range list {
		if o.Spec.Level != 0 {
			list[i].Level = o.Spec.Level
		}
		if err := list[i].Check(t); err != nil {
			return nil, err
		}
	}
	return slices.Compact(list), nil
}

func (f native) codingText(o *Output) string {
	if !o.Type.Valid() {
		return o.Spec.Compression
	}
	list, err := f.candidates(o, o.Type)
	if err != nil || len(list) == 0 {
		return o.Spec.Compression
	}
	if len(list) == 1 {
		return list[0].String()
	}
	return "by trial: " + list[len(list)-1].String() + " unless another is smaller"
}

func (native) sample(context.Context, *Output, raster.Grid) error { return nil }

func (native) files() []string { return nil }

func (native) notes() []outcome.Note { return nil }

func (native) memory(*Output, raster.Grid, int64) memory { return memory{} }

func (native) bins(_ *Output, b stats.Bins) stats.Bins { return b }

func (native) holdsColors(o *Output) bool {
	return o.Bands == 1 && (o.Type == ndarray.Uint8 || o.Type == ndarray.Uint16)
}

// grid leaves out what .aux.xml has.
func (native) grid(g raster.Grid) raster.Grid {
	if tiffwrite.CheckGeoreference(g) != nil {
		g.CRS = raster.CRS{}
		if !g.HasTransform {
			g.GCPs = nil
		}
	}
	return g
}

func (native) layOut(ctx context.Context, w *Writer) (Finished, error) {
	defer w.timings.Start("laying out", "main", -1).Stop()
	coding, err := w.Spool.Finish(ctx, w.workers)
	if err != nil {
		return nil, err
	}
	file := w.Layout.File
	file.Coding = coding
	f := &finishedNative{w: w, res: outcome.OutputResult{Name: w.Name, Path: w.Spec.Label(), Type: w.Type,
		Nodata: w.Nodata, Coding: coding.String(), Overviews: file.Levels, Format: nativeName}}
	info, err := w.describeBands(&f.res)
	if err != nil {
		return nil, err
	}
	file.BandInfo, file.Metadata, file.Domains = info.Bands, info.Metadata, info.Domains
	f.bands = info.Bands
	if text, err := f.auxText(); err != nil {
		return nil, err
	} else if text != "" {
		base := path.Base(w.Spec.Label())
		f.res.Files = []string{base, base + ".aux.xml"}
	}
	if f.file, err = tempfile.Create(w.Spec.localPath(), 0o666); err != nil {
		return nil, err
	}
	f.res.Tiles = w.Spool.Tiles()
	f.res.Bytes, err = tiffwrite.Write(ctx, f.file.File, &file, w.File.OSFile(), w.Spool.TileRef)
	if err != nil {
		return nil, errors.Join(err, f.file.Abort())
	}
	return f, nil
}

// finishedNative is a GeoTIFF without a name.
type finishedNative struct {
	w    *Writer
	file *tempfile.File
	res  outcome.OutputResult
	// bands are the bands as the file describes them.
	bands []raster.Band
}

func (f *finishedNative) Result() *outcome.OutputResult { return &f.res }

// Publish removes the sidecars of the old file, publishes the new one, and then its .aux.xml. A
// reader therefore sees the old file or the new one, for a moment without sidecars, and never with
// those of the other.
func (f *finishedNative) Publish() error {
	o := f.w
	if err := o.checkClobber(); err != nil {
		return err
	}
	// Stale sidecars would be read as this file's statistics, overviews and mask.
	if err := o.removeSidecars(sidecarSuffixes); err != nil {
		return err
	}
	fault.Point("apply.unaccompanied")
	aux, err := f.createAux(localpath.Absolute(o.Spec.Path) + ".aux.xml")
	if err != nil {
		return fmt.Errorf("output %s: %w", o.Name, err)
	}
	if err := o.publish(f.file); err != nil {
		return errors.Join(err, aux.Abort())
	}
	fault.Point("apply.renamed")
	if err := aux.Commit(); err != nil {
		return fmt.Errorf("output %s: %w", o.Name, err)
	}
	return nil
}

// Upload writes the file, and its .aux.xml, to the output's store.
func (f *finishedNative) Upload(ctx context.Context, store Store) error {
	return f.w.upload(ctx, store, f.file, f.res.Bytes, f.uploadAux)
}

func (f *finishedNative) uploadAux(ctx context.Context, store Store) error {
	text, err := f.auxText()
	if err != nil || text == "" {
		return err
	}
	return store.Upload(ctx, f.w.Spec.Path+".aux.xml", strings.NewReader(text), int64(len(text)),
		objstore.UploadOptions{})
}

func (f *finishedNative) Keepable() bool { return true }

// Keep gives the file the output's name, or a similar one if that name or the name of one of its
// sidecars is taken.
func (f *finishedNative) Keep() (string, error) {
	path, err := f.file.CommitNumbered(func(path string) bool {
		return slices.ContainsFunc(sidecarSuffixes, func(suffix string) bool {
			_, err := os.Lstat(path + suffix)
			return err == nil
		})
	})
	if err == nil {
		aux, err := f.createAux(path + ".aux.xml")
		if err == nil {
			err = aux.Commit()
		}
		if err != nil {
			f.w.log.Warn("writing the .aux.xml failed", "error", err)
		}
	}
	return path, err
}

func (f *finishedNative) Discard() error { return f.file.Abort() }
