package plan

import (
	"fmt"
	"slices"

	"leat/apply/internal/resolve"
	"leat/apply/internal/spool"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/overview"
	"leat/internal/units"
	"leat/raster"
)

// storedText describes how a file stores its pixels.
func storedText(i *raster.Info) string {
	coding := i.Compression + ", "
	switch i.Compression {
	case "none":
		coding = "not compressed, "
	case "unknown":
		coding = ""
	}
	switch {
	case i.TileHeight >= i.Grid.Height && i.TileWidth >= i.Grid.Width:
		return coding + "in one piece"
	case i.TileWidth >= i.Grid.Width:
		return fmt.Sprintf("%sin strips of %s", coding, units.Count(i.TileHeight, "row"))
	}
	return fmt.Sprintf("%sin tiles of %d x %d", coding, i.TileWidth, i.TileHeight)
}

// scaleText says whether the values of a file are its pixels, of a file that gives a scale or an
// offset; unscale is that of the job. Else it is "".
func scaleText(f *resolve.File, unscale bool) string {
	for _, l := range f.Layers {
		b := &f.Info.Bands[l-1]
		if (b.Scale == 0 || b.Scale == 1) && b.Offset == 0 {
			continue
		}
		text := fmt.Sprintf(", scale %v and offset %v of band %d", b.Scale, b.Offset, l)
		switch {
		case f.Scale != 0:
			return text + " replaced by others"
		case unscale:
			return text + " applied"
		}
		return text + " not applied"
	}
	return ""
}

// describe fills in the descriptions of inputs and outputs.
func (p *Plan) describe(job *resolve.Job) {
	for _, f := range job.Inputs.Files {
		i, warped, xs, ys := f.Info, "", 0.0, 0.0
		if f.Warp != nil {
			i, warped, xs, ys = &f.Warp.Original, f.Warp.Text(), f.Warp.XScale, f.Warp.YScale
		}
		d := fmt.Sprintf("%d x %d pixels, %s of %v, %s", i.Grid.Width, i.Grid.Height, units.Count(len(f.Layers), "band"),
			f.Type, storedText(i)) + scaleText(f, job.Values.Controls.Unscale)
		decodes := 1.0
		if tileBytes(f) > 0 && p.CacheBytes < cacheNeed(job.Inputs, p.Blocks) {
			decodes = decodesOf(f, p.Blocks)
		}
		p.Inputs = append(p.Inputs, outcome.PlanInput{Name: f.Name, Path: f.Path, Description: d, Decodes: decodes,
			Access: f.Mode.String(), Why: f.ReadReason, NeedBytes: f.BytesNeeded, FileBytes: i.FileBytes,
			Warped: warped, XScale: xs, YScale: ys, Time: f.Time})
		if len(job.Values.Inputs[f.Name].Groups) > 0 {
			p.Inputs[len(p.Inputs)-1].Item = f.Item + 1
		}
	}
	for _, o := range job.Outputs {
		if o.Spec.Table != nil {
			p.Outputs = append(p.Outputs,
				outcome.PlanOutput{Name: o.Name, Path: o.Spec.Label(), Format: o.Spec.FormatName(), Table: true})
			continue
		}
		po := outcome.PlanOutput{Name: o.Name, Path: o.Spec.Label(), Expression: job.Values.Expressions[o.Name],
			Type: "from the first block", Bands: o.Bands,
			Nodata: "none", Coding: o.CodingText(), TileWidth: o.TileWidth, TileHeight: o.TileHeight,
			Format: o.Spec.FormatName(), Options: o.Spec.Options, Notes: o.Notes(), Polygons: o.Spec.Polygons}
		if o.Type.Valid() {
			po.Type = o.Type.String()
			if o.Nodata != nil {
				po.Nodata = o.Nodata.String()
			}
			po.RawBytes = int64(p.Grid.Width) * int64(p.Grid.Height) * int64(o.Type.Size()*max(o.Bands, 1))
		}
		for i := range o.Bands {
			po.Scalings = append(po.Scalings, o.Scaling(i))
		}
		full := po.RawBytes
		for _, f := range append(slices.Clone(o.Factors), o.LaterFactors()...) {
			s := raster.Size{Width: overview.Reduced(p.Grid.Width, f), Height: overview.Reduced(p.Grid.Height, f)}
			po.Overviews = append(po.Overviews, s)
			po.RawBytes += full / int64(f*f)
		}
		p.Outputs = append(p.Outputs, po)
	}
}

// decodesOf returns how often a tile of the file is decoded on average without a cache.
func decodesOf(f *resolve.File, blocks block.Plan) float64 {
	i, n, sum := f.Info, 0, 0
	for y := 0; y < i.Grid.Height; y += i.TileHeight {
		for x := 0; x < i.Grid.Width; x += i.TileWidth {
			w := block.Window{Col: x, Row: y, Width: i.TileWidth, Height: i.TileHeight}.Intersect(i.Grid.Window())
			if k := spool.CountTouching(blocks, w.Shift(-f.ColOffset, -f.RowOffset)); k > 0 {
				n++
				sum += k
			}
		}
	}
	if n == 0 {
		return 0
	}
	return float64(sum) / float64(n)
}
