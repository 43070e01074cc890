package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"leat/apply"
)

// showPlan prints how a job would be run.
func showPlan(w io.Writer, job apply.Job, asJSON bool) error {
	p, err := apply.MakePlan(job)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(w, p)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	g := p.Grid
	minX, minY, maxX, maxY := g.Bounds()
	fmt.Fprintf(t, "grid\t%d x %d pixels\n", g.Width, g.Height)
	if g.HasTransform {
		fmt.Fprintf(t, "\tx %v to %v, y %v to %v\n", minX, maxX, minY, maxY)
	}
	fmt.Fprintf(t, "CRS\t%v\n", g.CRS)
	b := p.Blocks
	fmt.Fprintf(t, "blocks\t%d of %d x %d pixels (%d across, %d down)", b.Count(), b.WindowWidth, b.WindowHeight, b.Across(), b.Down())
	if b.Overlap > 0 {
		fmt.Fprintf(t, ", overlap %d", b.Overlap)
	}
	fmt.Fprintf(t, "\nworkers\t%d, and %d reading ahead; %d blocks in memory at most\n", p.Workers, p.Readers, p.Buffers)
	fmt.Fprintf(t, "memory\tabout %s of %s allowed", bytesText(p.MemoryBytes), bytesText(p.BudgetBytes))
	if p.CacheBytes > 0 {
		fmt.Fprintf(t, ", %s of it for decoded tiles that several blocks need", bytesText(p.CacheBytes))
	}
	fmt.Fprintln(t)
	for _, in := range p.Inputs {
		fmt.Fprintf(t, "input\t%s = %s\n\t%s\n", in.Name, in.Path, in.Description)
		if in.Decodes > 1 {
			fmt.Fprintf(t, "\teach tile is decoded %.1f times: more memory, or larger blocks, would spare that\n", in.Decodes)
		}
	}
	for _, o := range p.Outputs {
		fmt.Fprintf(t, "output\t%s = %s\n", o.Name, o.Path)
		if o.Expression != "" {
			fmt.Fprintf(t, "\t%s\n", shorten(o.Expression))
		}
		fmt.Fprintf(t, "\t%d x %s, nodata %s, tiles of %d x %d, %s\n", max(o.Bands, 1), o.Type, o.Nodata, o.TileWidth, o.TileHeight, o.Coding)
		fmt.Fprint(t, "\toverviews:")
		for _, s := range o.Overviews {
			fmt.Fprintf(t, " %dx%d", s.Width, s.Height)
		}
		if len(o.Overviews) == 0 {
			fmt.Fprint(t, " none")
		}
		fmt.Fprintf(t, "; %s before compression\n", bytesText(o.RawBytes))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, note := range p.Notes {
		fmt.Fprintln(w, note)
	}
	return nil
}
