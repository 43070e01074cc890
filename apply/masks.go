package apply

import (
	"context"
	"fmt"
	"slices"

	"leat/apply/internal/jobspec"
	"leat/block"
	"leat/ndarray"
	"leat/raster"
)

// maskSource is the mask of a layer, which applies in addition to nodata and NaN.
type maskSource struct {
	Kind  raster.MaskKind `json:"kind,omitempty"`
	Alpha int             `json:"alpha,omitempty"` // number of the band, if Kind is MaskAlpha
}

// resolveValidity returns the nodata value and the mask of a layer; [raster.Info.Validity] has the
// file's own rules. The job's nodata replaces the file's and applies in addition to a mask.
func (f *inputFile) resolveValidity(layer, band int, spec jobspec.Input,
	noMask bool) (*ndarray.Scalar, maskSource, error) {
	nodata, kind := f.info.Validity(band)
	// Both apply. gdalwarp ignores the mask in each of its chunks with a nodata pixel, so that its
	// result depends on the chunks.
	if f.warp != nil {
		nodata, kind = f.info.Bands[band-1].Nodata, f.info.Mask
	}
	if len(spec.Nodata) > 0 {
		text := spec.Nodata[min(layer, len(spec.Nodata)-1)]
		if text != "" {
			nodata = nil
			if kind == raster.MaskNone && f.info.Mask == raster.MaskAlpha && band != f.info.AlphaBand() {
				kind = raster.MaskAlpha
			}
			if f.info.MaskFromNodata {
				kind = raster.MaskNone
			}
		}
		if text != "" && text != "none" {
			v, err := ndarray.ParseScalar(text, f.typ)
			if err != nil {
				return nil, maskSource{},
					&JobError{Err: fmt.Errorf("nodata %s for %s: not a value of its type, %v; use another, or none", text,
						f.path, f.typ)}
			}
			nodata = &v
		}
	}
	if noMask {
		nodata = nil
		if f.warp == nil { // the mask of a warped file then marks the pixels it covers
			kind = raster.MaskNone
		}
	}
	if _, ok := f.src.(raster.Masker); kind == raster.MaskDataset && !ok {
		kind = raster.MaskNone
	}
	s := maskSource{Kind: kind}
	if kind == raster.MaskAlpha {
		s.Alpha = f.info.AlphaBand()
	}
	return nodata, s, nil
}

// indexMasks finds the mask planes that a block of the file needs: layers with the same mask share
// one.
func (f *inputFile) indexMasks() {
	f.planes, f.planeOf, f.alpha = nil, nil, 0
	index := map[maskSource]int{}
	for _, s := range f.masks {
		i, ok := index[s]
		if !ok {
			i = len(f.planes)
			index[s] = i
			f.planes = append(f.planes, s)
		}
		f.planeOf = append(f.planeOf, i)
		f.alpha = max(f.alpha, s.Alpha)
	}
}

// masked reports whether any layer has a mask or an alpha band.
func (f *inputFile) masked() bool {
	return slices.ContainsFunc(f.planes, func(s maskSource) bool { return s.Kind != raster.MaskNone })
}

// readsMask reports whether any layer uses the file's own mask.
func (f *inputFile) readsMask() bool {
	return slices.ContainsFunc(f.planes, func(s maskSource) bool { return s.Kind == raster.MaskDataset })
}

// ReadMaskPlane fills dst with the mask in a window of the file.
func (f *inputFile) ReadMaskPlane(ctx context.Context, s maskSource, w block.Window, dst, alpha []byte) error {
	switch {
	case s.Kind == raster.MaskNone:
		for i := range dst {
			dst[i] = 255
		}
		return nil
	case s.Kind == raster.MaskDataset:
		return f.src.(raster.Masker).ReadMask(ctx, w, dst)
	case alpha != nil:
		copy(dst, alpha)
		return nil
	}
	a := ndarray.New(f.info.Bands[s.Alpha-1].Type, 1, w.Height, w.Width)
	if err := f.src.Read(ctx, []int{s.Alpha}, w, a); err != nil {
		return err
	}
	raster.AlphaMask(a.Raw(), a.Type.Size(), dst)
	return nil
}
