package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"leat/apply"
	"leat/internal/terminal"
	"leat/internal/units"
)

// showPlan prints how a job would be run.
func showPlan(ctx context.Context, w io.Writer, job apply.Job, asJSON bool) error {
	p, err := apply.MakePlan(ctx, job)
	if err != nil {
		return err
	}
	if asJSON {
		return stdoutError(writeJSON(w, newPlanDoc(p)))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	g := p.Grid
	minX, minY, maxX, maxY := g.Bounds()
	fmt.Fprintf(t, "grid\t%d x %d pixels\n", g.Width, g.Height)
	if g.HasTransform {
		fmt.Fprintf(t, "\tx %s to %s, y %s to %s\n", coordinate(minX), coordinate(maxX), coordinate(minY),
			coordinate(maxY))
	}
	fmt.Fprintf(t, "CRS\t%s\n", oneLine(fmt.Sprint(g.CRS)))
	b := p.Blocks
	fmt.Fprintf(t, "blocks\t%d of %d x %d pixels (%d across, %d down)", b.Count(), b.WindowWidth, b.WindowHeight,
		b.Cols(), b.Rows())
	if b.Overlap > 0 {
		fmt.Fprintf(t, ", overlap %d", b.Overlap)
	}
	fmt.Fprintf(t, "\nworkers\t%s", workersText(p))
	if !p.WorkersRead {
		fmt.Fprintf(t, "; %d blocks in memory at most", p.Buffers)
	}
	fmt.Fprintln(t)
	fmt.Fprintf(t, "memory\tabout %s of %s allowed", units.FormatSize(p.MemoryBytes), units.FormatSize(p.BudgetBytes))
	if p.CacheBytes > 0 {
		fmt.Fprintf(t, ", %s of it for decoded tiles that several blocks need", units.FormatSize(p.CacheBytes))
	}
	fmt.Fprintln(t)
	for _, in := range p.Inputs {
		fmt.Fprintf(t, "input\t%s = %s\n\t%s\n", in.Name, terminal.Name(in.Path), terminal.Name(in.Description))
		if in.Warped != "" {
			fmt.Fprintf(t, "\t%s\n\tXSCALE=%v YSCALE=%v\n", terminal.Name(in.Warped), in.XScale, in.YScale)
		}
		if in.Why != "" {
			fmt.Fprintf(t, "\t%s: %s\n", in.Access, terminal.Name(in.Why))
		}
		if in.Decodes > 1 {
			fmt.Fprintf(t, "\teach tile is decoded %.1f times: more memory, or larger blocks, would spare that\n",
				in.Decodes)
		}
	}
	for _, o := range p.Outputs {
		fmt.Fprintf(t, "output\t%s = %s\n", o.Name, terminal.Name(o.Path))
		if o.Expression != "" {
			fmt.Fprintf(t, "\t%s\n", shorten(o.Expression))
		}
		fmt.Fprintf(t, "\t%d x %s, nodata %s, ", max(o.Bands, 1), o.Type, o.Nodata)
		if o.Format == "GTiff" {
			fmt.Fprintf(t, "tiles of %d x %d, ", o.TileWidth, o.TileHeight)
		}
		fmt.Fprintf(t, "%s\n", o.Coding)
		fmt.Fprint(t, "\toverviews:")
		for _, s := range o.Overviews {
			fmt.Fprintf(t, " %dx%d", s.Width, s.Height)
		}
		if len(o.Overviews) == 0 {
			fmt.Fprint(t, " none")
		}
		fmt.Fprintf(t, "; %s before compression\n", units.FormatSize(o.RawBytes))
		for _, note := range o.Notes {
			fmt.Fprintf(t, "\t%s\n", note.Text)
		}
	}
	err = t.Flush()
	if err == nil {
		err = printNotes(w, p.Notes, p.Warnings)
	}
	if err == nil && p.Replaced != nil {
		m := replacedMessage(p.Replaced)
		_, err = fmt.Fprintf(w, "%s: %s\n", m.text, m.hint)
	}
	return stdoutError(err)
}

// coordinate writes a number without an exponent.
func coordinate(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// planDoc is a plan as --json shows it; sizes are in pixels and bytes.
type planDoc struct {
	Width       int            `json:"width"`
	Height      int            `json:"height"`
	Transform   *[6]float64    `json:"transform"` // as GDAL has it; null without coordinates
	CRS         string         `json:"crs"`
	Blocks      int            `json:"blocks"`
	BlockWidth  int            `json:"block_width"`
	BlockHeight int            `json:"block_height"`
	Overlap     int            `json:"overlap"`
	Workers     int            `json:"workers"`
	Kind        string         `json:"kind,omitempty"` // of workers in other processes
	WorkersRead bool           `json:"workers_read,omitempty"`
	Readers     int            `json:"readers"`
	InMemory    int            `json:"blocks_in_memory"`
	Memory      int64          `json:"memory_bytes"`
	Budget      int64          `json:"budget_bytes"`
	Cache       int64          `json:"cache_bytes"`
	Ahead       int64          `json:"ahead_bytes"` // for pieces of remote files
	Inputs      []planInputDoc `json:"inputs"`
	Outputs     []planFileDoc  `json:"outputs"`
	Notes       []string       `json:"notes"`
	Warnings    []string       `json:"warnings"`
	Replaced    *replacedDoc   `json:"replaced,omitempty"`
}

// replacedDoc describes blocks of an earlier run that a run without --resume replaces.
type replacedDoc struct {
	Paths   []string `json:"paths"`
	Blocks  int      `json:"blocks"`
	Total   int      `json:"total"`
	Changes []string `json:"changes"` // why --resume can't use them
}

type planInputDoc struct {
	Name        string  `json:"name"`
	Path        string  `json:"path"`
	Description string  `json:"description"`
	Decodes     float64 `json:"decodes"` // how often a stored tile is decoded
	Access      string  `json:"access"`  // "local", "not read", "in pieces", "staged"
	Why         string  `json:"why,omitempty"`
	NeedBytes   int64   `json:"need_bytes,omitempty"` // of a remote file
	FileBytes   int64   `json:"file_bytes"`
	Warped      string  `json:"warped,omitempty"`
	XScale      float64 `json:"xscale,omitempty"` // gdalwarp's, of one that is warped
	YScale      float64 `json:"yscale,omitempty"`
}

type planFileDoc struct {
	Name       string   `json:"name"`
	Path       string   `json:"path"`
	Expression string   `json:"expression"`
	Type       string   `json:"type"`
	Bands      int      `json:"bands"`
	Nodata     string   `json:"nodata"`
	Coding     string   `json:"coding"`
	TileWidth  int      `json:"tile_width"`
	TileHeight int      `json:"tile_height"`
	Overviews  [][2]int `json:"overviews"` // width, height
	RawBytes   int64    `json:"raw_bytes"` // before compression
	Format     string   `json:"format"`    // GDAL's name of it
	Options    []string `json:"options"`   // of a format other than GTiff
	Lost       []string `json:"lost"`      // sentences on what that does not keep
}

func newPlanDoc(p *apply.Plan) *planDoc {
	b := p.Blocks
	d := &planDoc{Width: p.Grid.Width, Height: p.Grid.Height, CRS: p.Grid.CRS.String(), Blocks: b.Count(),
		BlockWidth:  b.WindowWidth,
		BlockHeight: b.WindowHeight, Overlap: b.Overlap, Workers: p.Workers, Kind: p.Kind, WorkersRead: p.WorkersRead,
		Readers: p.Readers, InMemory: p.Buffers,
		Memory: p.MemoryBytes, Budget: p.BudgetBytes, Cache: p.CacheBytes, Ahead: p.AheadBytes,
		Inputs: []planInputDoc{}, Outputs: []planFileDoc{}, Notes: noteTexts(p.Notes), Warnings: noteTexts(p.Warnings)}
	if p.Grid.HasTransform {
		t := [6]float64(p.Grid.Transform)
		d.Transform = &t
	}
	if r := p.Replaced; r != nil {
		d.Replaced = &replacedDoc{r.Paths, r.Blocks, r.Total, orEmpty(r.Changes)}
	}
	for _, in := range p.Inputs {
		d.Inputs = append(d.Inputs, planInputDoc(in))
	}
	for _, o := range p.Outputs {
		f := planFileDoc{o.Name, o.Path, o.Expression, o.Type, max(o.Bands, 1), o.Nodata, o.Coding, o.TileWidth,
			o.TileHeight, [][2]int{}, o.RawBytes,
			o.Format, orEmpty(o.Options), noteTexts(o.Notes)}
		for _, s := range o.Overviews {
			f.Overviews = append(f.Overviews, [2]int{s.Width, s.Height})
		}
		d.Outputs = append(d.Outputs, f)
	}
	return d
}
