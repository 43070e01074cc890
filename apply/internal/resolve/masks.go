package resolve

import (
	"context"
	"fmt"
	"slices"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/driver"
	"leat/ndarray"
	"leat/raster"
)

// resolveValidity returns the nodata value and the mask of a layer; [raster.Info.Validity] has the
// file's own rules. The job's nodata replaces the file's and applies in addition to a mask.
func (f *File) resolveValidity(layer, band int, spec jobspec.Input,
	noMask bool) (*ndarray.Scalar, jobspec.MaskSource, error) {
	nodata, kind := f.Info.Validity(band)
	// Both apply. gdalwarp ignores the mask in each of its chunks with a nodata pixel, so that its
	// result depends on the chunks.
	if f.Warp != nil {
		nodata, kind = f.Info.Bands[band-1].Nodata, f.Info.Mask
	}
	if len(spec.Nodata) > 0 {
		text := spec.Nodata[min(layer, len(spec.Nodata)-1)]
		if text != "" {
			nodata = nil
			if kind == raster.MaskNone && f.Info.Mask == raster.MaskAlpha && band != f.Info.AlphaBand() {
				kind = raster.MaskAlpha
			}
			if f.Info.MaskFromNodata {
				kind = raster.MaskNone
			}
		}
		if text != "" && text != "none" {
			v, err := ndarray.ParseScalar(text, f.Type)
			if err != nil {
				return nil, jobspec.MaskSource{},
					&outcome.JobError{Err: jobspec.Errorf("Input.Nodata", "nodata %s for %s: expected a value of its type, %v", text,
						f.Path, f.Type)}
			}
			nodata = &v
		}
	}
	if noMask {
		nodata = nil
		if f.Warp == nil { // the mask of a warped file then marks the pixels it covers
			kind = raster.MaskNone
		}
	}
	if _, ok := f.Source.(raster.Masker); kind == raster.MaskDataset && !ok {
		kind = raster.MaskNone
	}
	s := jobspec.MaskSource{Kind: kind}
	if kind == raster.MaskAlpha {
		s.Alpha = f.Info.AlphaBand()
	}
	return nodata, s, nil
}

// impossibleNodata describes the nodata value of a file that no pixel of its type can have, where
// nothing else says which pixels are invalid; "" if there is none. GDAL rounds some of these values
// to others of the type.
func (f *File) impossibleNodata(spec jobspec.Input) string {
	if len(spec.Nodata) > 0 || f.Warp != nil || f.Vector != nil {
		return ""
	}
	for i, l := range f.Layers {
		b := &f.Info.Bands[l-1]
		if b.NodataText != "" && b.Nodata == nil && f.Masks[i].Kind == raster.MaskNone {
			return fmt.Sprintf("input %s (%s): no pixel of %v can be its nodata value %s, so every pixel counts", f.Name, f.Path, b.Type,
				b.NodataText)
		}
	}
	return ""
}

// nodataNotes returns notes on nodata values that no pixel can have.
func (in *Inputs) nodataNotes(job *jobspec.Job) (notes []outcome.Note) {
	if job.Controls.NoMask {
		return nil
	}
	odd := 0
	for _, f := range in.Files {
		text := f.impossibleNodata(job.Inputs[f.Name])
		if text == "" {
			continue
		}
		if odd++; odd <= maxNotes {
			notes = append(notes, outcome.Note{Field: "Input.Nodata", Text: text})
		}
	}
	if odd > maxNotes {
		notes = append(notes, outcome.Note{Field: "Input.Nodata",
			Text: fmt.Sprintf("%d more files have nodata values that no pixel can have", odd-maxNotes)})
	}
	return notes
}

// indexMasks finds the mask planes that a block of the file needs: layers with the same mask share
// one.
func (f *File) indexMasks() {
	f.Planes, f.PlaneOf, f.Alpha = nil, nil, 0
	index := map[jobspec.MaskSource]int{}
	for _, s := range f.Masks {
		i, ok := index[s]
		if !ok {
			i = len(f.Planes)
			index[s] = i
			f.Planes = append(f.Planes, s)
		}
		f.PlaneOf = append(f.PlaneOf, i)
		f.Alpha = max(f.Alpha, s.Alpha)
	}
}

// Masked reports whether any layer has a mask or an alpha band.
func (f *File) Masked() bool {
	return slices.ContainsFunc(f.Planes, func(s jobspec.MaskSource) bool { return s.Kind != raster.MaskNone })
}

// ReadsMask reports whether any layer uses the file's own mask.
func (f *File) ReadsMask() bool {
	return slices.ContainsFunc(f.Planes, func(s jobspec.MaskSource) bool { return s.Kind == raster.MaskDataset })
}

// ReadMaskPlane fills dst with the mask in a window of the file.
func (f *File) ReadMaskPlane(ctx context.Context, s jobspec.MaskSource, w block.Window, dst, alpha []byte) error {
	switch {
	case s.Kind == raster.MaskNone:
		for i := range dst {
			dst[i] = 255
		}
		return nil
	case s.Kind == raster.MaskDataset:
		return f.Source.(raster.Masker).ReadMask(ctx, w, dst)
	case alpha != nil:
		copy(dst, alpha)
		return nil
	}
	a := ndarray.New(f.Info.Bands[s.Alpha-1].Type, 1, w.Height, w.Width)
	if err := f.Source.Read(ctx, []int{s.Alpha}, w, a); err != nil {
		return err
	}
	driver.AlphaMask(a.Raw(), a.Type.Size(), dst)
	return nil
}
