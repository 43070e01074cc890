package zonaljob

import (
	"context"
	"encoding/binary"
	"fmt"

	"leat/apply"
	"leat/internal/zonal"
	"leat/ndarray"
)

// functionName is the name of the function in [Functions].
const functionName = "zonal"

// Functions is the table of functions of worker processes.
func Functions() apply.Functions {
	return apply.Functions{functionName: {Func: compute,
		Setup:  func(context.Context, apply.WorkerInfo) (any, error) { return &worker{}, nil },
		Params: paramsCodec{}, Emits: bytesCodec{}}}
}

// worker holds what a worker reuses from block to block.
type worker struct {
	params     *params
	specs      []*zonal.Spec
	collectors []*zonal.Collector // by variable
	rasterizer zonal.Rasterizer
	regions    zonal.Regions
	polygon    zonal.Polygon
	mask       zonal.Mask
	zones      []int
}

func (w *worker) setup(p *params) error {
	if w.params == p {
		return nil
	}
	specs, err := p.specs()
	if err != nil {
		return err
	}
	w.params, w.specs, w.collectors = p, specs, nil
	for _, s := range specs {
		w.collectors = append(w.collectors, zonal.NewCollector(s))
	}
	return nil
}

// plane is a band of a variable in a block, without margin.
type plane struct {
	variable      int
	pixels, valid *ndarray.Array
}

// compute emits one value, with an entry for each zone of the block: the difference from the number
// of the zone before, times two, plus 1 if no later block has pixels of the zone, and then the
// states of the bands.
func compute(ctx context.Context, b *apply.Block) error {
	w, p := b.State().(*worker), b.Params().(*params)
	if err := w.setup(p); err != nil {
		return err
	}
	var planes []plane
	for i, v := range p.Variables {
		pixels, valid := b.Variable(v.Name), b.VariableValid(v.Name)
		if pixels.Type != v.Type || pixels.Shape[0] != v.Bands {
			return fmt.Errorf("variable %s has %d bands of %v, expected %d of %v", v.Name, pixels.Shape[0], pixels.Type, v.Bands,
				v.Type)
		}
		for band := range v.Bands {
			planes = append(planes, plane{i, inner(b, pixels.At(band)), inner(b, valid.At(band))})
		}
	}
	out := []byte{}
	last := int64(0)
	add := func(zone int64, final bool, mask *zonal.Mask) error {
		head := uint64(zone-last) << 1
		if final {
			head |= 1
		}
		last = zone
		out = binary.AppendUvarint(out, head)
		for _, pl := range planes {
			var st zonal.State
			if err := w.collectors[pl.variable].Add(&st, mask, pl.pixels, pl.valid); err != nil {
				return err
			}
			out = w.specs[pl.variable].Append(out, &st)
		}
		return ctx.Err()
	}
	var err error
	if p.Raster {
		err = w.computeRegions(b, &out, add)
	} else {
		err = w.computePolygons(b, add)
	}
	if err != nil {
		return err
	}
	b.Emit(out)
	return nil
}

// inner returns a band without the margin.
func inner(b *apply.Block, a *ndarray.Array) *ndarray.Array {
	o := b.Overlap()
	return &ndarray.Array{Type: a.Type, Data: a.Data, Strides: a.Strides,
		Shape: []int{b.Window.Height, b.Window.Width}, Offset: a.Offset + o*a.Strides[0] + o*a.Strides[1]}
}

func (w *worker) computePolygons(b *apply.Block, add func(zone int64, final bool, mask *zonal.Mask) error) error {
	p := w.params
	w.zones = p.find(w.zones[:0], b.Window)
	for _, zone := range w.zones {
		if err := p.shapes.polygon(zone, &w.polygon); err != nil {
			return err
		}
		w.rasterizer.Cover(&w.polygon, b.Window, p.Rule, &w.mask)
		final := !b.Window.Intersect(p.last[zone]).Empty()
		if w.mask.Empty() && !final {
			continue
		}
		if err := add(int64(zone), final, &w.mask); err != nil {
			return err
		}
	}
	return nil
}

// computeRegions adds the zones of a raster. Their numbers may be negative, so the value begins
// with the first of them.
func (w *worker) computeRegions(b *apply.Block, out *[]byte,
	add func(zone int64, final bool, mask *zonal.Mask) error) error {
	ids, valid := inner(b, b.Variable(zonesName).At(0)), inner(b, b.VariableValid(zonesName).At(0))
	first := true
	base := int64(0)
	for zone, mask := range w.regions.Split(ids, valid) {
		if first {
			base, first = zone, false
			*out = binary.AppendVarint(*out, base)
		}
		if err := add(zone-base, false, mask); err != nil {
			return err
		}
	}
	return nil
}
