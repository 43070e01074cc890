package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"leat/apply"
	"leat/apply/outcome"
	"leat/internal/terminal"
	"leat/internal/units"
	"leat/raster"
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
		size := pixelSide(g.Transform)
		fmt.Fprintf(t, "\tx %s to %s, y %s to %s\n", coordinate(minX, size), coordinate(maxX, size),
			coordinate(minY, size), coordinate(maxY, size))
	}
	fmt.Fprintf(t, "CRS\t%s\n", oneLine(fmt.Sprint(g.CRS)))
	b := p.Blocks
	fmt.Fprintf(t, "blocks\t%d of %d x %d pixels (%d across, %d down)", b.Count(), b.WindowWidth, b.WindowHeight,
		b.Cols(), b.Rows())
	if p.SkippedBlocks > 0 {
		fmt.Fprintf(t, ", %d of them skipped", p.SkippedBlocks)
	}
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
		if text := itemText(in.Item, in.Time); text != "" {
			fmt.Fprintf(t, "\t%s\n", text)
		}
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
		if o.Table {
			fmt.Fprintf(t, "\t%s\n", o.Format)
			continue
		}
		if o.Expression != "" {
			fmt.Fprintf(t, "\t%s\n", shorten(o.Expression))
		}
		fmt.Fprintf(t, "\t%d x %s, nodata %s, ", max(o.Bands, 1), o.Type, o.Nodata)
		if o.Format == "GTiff" {
			fmt.Fprintf(t, "tiles of %d x %d, ", o.TileWidth, o.TileHeight)
		}
		fmt.Fprintf(t, "%s\n", o.Coding)
		if text := scalingsText(o.Scalings); text != "" {
			fmt.Fprintf(t, "\t%s\n", terminal.Name(text))
		}
		if o.Polygons {
			fmt.Fprintln(t, "\tpolygons of connected pixels of equal value")
			continue
		}
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

// scalingsText describes scales, offsets and units by band: once where all bands have the same, ""
// where none has any.
func scalingsText(list []outcome.Scaling) string {
	var parts []string
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to] == list[from] {
			to++
		}
		text := list[from].String()
		switch {
		case to-from == len(list):
			return text
		case text == "":
		case to-from == 1:
			parts = append(parts, fmt.Sprintf("band %d: %s", to, text))
		default:
			parts = append(parts, fmt.Sprintf("bands %d to %d: %s", from+1, to, text))
		}
		from = to
	}
	return strings.Join(parts, "; ")
}

// itemText describes a part of a list: the number of its item, if it has one, and its time, if it
// is known.
func itemText(item int, when time.Time) string {
	var parts []string
	if item > 0 {
		parts = append(parts, fmt.Sprintf("item %d of the list", item))
	}
	if !when.IsZero() {
		parts = append(parts, when.Format(time.RFC3339Nano))
	}
	return strings.Join(parts, ", ")
}

// coordinate returns a coordinate without an exponent, exact to a thousandth of a pixel's side.
func coordinate(v, side float64) string {
	digits := -1
	if side > 0 {
		digits = max(0, int(math.Ceil(3-float64(math.Log10(side)))))
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		return "0"
	}
	return text
}

// pixelSide returns the shorter side of a pixel.
func pixelSide(t raster.Transform) float64 {
	return min(math.Hypot(t[1], t[4]), math.Hypot(t[2], t[5]))
}

// planDoc is a plan as leat apply --plan --json shows it.
type planDoc struct {
	gridDoc     `json:"grid"`  // of the outputs
	Blocks      int            `json:"blocks"`                   // of the whole grid
	Skipped     int            `json:"skipped_blocks,omitempty"` // of these, not computed: no zone is there
	BlockWidth  int            `json:"block_width"`              // columns of a block
	BlockHeight int            `json:"block_height"`             // rows of a block
	Overlap     int            `json:"overlap"`                  // pixels around a block that are read besides
	Workers     int            `json:"workers"`
	Kind        string         `json:"kind,omitempty"`         // of workers in other processes, as --on takes it
	WorkersRead bool           `json:"workers_read,omitempty"` // they read the inputs
	NoCopies    bool           `json:"no_copies,omitempty"`    // idle ones get no copies of the last blocks
	Readers     int            `json:"readers"`
	InMemory    int            `json:"blocks_in_memory"` // at most
	Memory      int64          `json:"memory_bytes"`     // an estimate of all that the run takes
	Budget      int64          `json:"budget_bytes"`     // what --memory allows
	Cache       int64          `json:"cache_bytes"`      // of decoded tiles that several blocks need
	Ahead       int64          `json:"ahead_bytes"`      // for pieces of remote files
	Inputs      []planInputDoc `json:"inputs"`
	Outputs     []planFileDoc  `json:"outputs"`
	Notes       []string       `json:"notes"`
	Warnings    []string       `json:"warnings"`
	Replaced    *replacedDoc   `json:"replaced,omitempty"` // blocks of an earlier run that are computed again
}

// replacedDoc describes blocks of an earlier run that a run without --resume replaces.
type replacedDoc struct {
	Paths []string `json:"paths"` // of the unfinished outputs
	blocksDoc
	Changes []string `json:"changes"` // why --resume can't use them
}

// planInputDoc is an input file of a plan.
type planInputDoc struct {
	Name        string     `json:"name"`
	Path        string     `json:"path"`
	Description string     `json:"description"`
	Decodes     float64    `json:"decodes"`              // how often a stored tile is decoded
	Access      string     `json:"access"`               // local, not read, in pieces or staged
	Why         string     `json:"why,omitempty"`        // of a remote file
	NeedBytes   int64      `json:"need_bytes,omitempty"` // of a remote file
	Bytes       *int64     `json:"bytes"`                // of the file; null: not known
	Time        *time.Time `json:"time,omitempty"`       // when it was taken, as far as the job says
	Item        int        `json:"item,omitempty"`       // number of the list's item that it is a part of, from 1
	Warped      string     `json:"warped,omitempty"`     // how it is warped onto the grid
	Scale       *warpScale `json:"warp_scale,omitempty"`
}

// warpScale is the options XSCALE and YSCALE with which gdalwarp -et 0 gives the same pixels.
type warpScale struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// outputDoc is what --json has of every output of leat apply.
type outputDoc struct {
	Name      string    `json:"name"`
	Path      string    `json:"path"`             // or URL
	Format    string    `json:"format"`           // as --format takes it, such as GTiff
	Options   []string  `json:"creation_options"` // of a format other than GTiff
	Coding    string    `json:"coding"`           // how pixels are stored, for people
	Overviews []sizeDoc `json:"overviews"`
}

// planFileDoc is an output of a plan.
type planFileDoc struct {
	outputDoc
	Expression string    `json:"expression"`
	Layout     tileDoc   `json:"layout"`
	Bands      []bandDoc `json:"bands"`
	Notes      []string  `json:"notes"`                  // what the format does not keep
	Polygons   bool      `json:"has_polygons,omitempty"` // the file has polygons of connected pixels
}

func newPlanDoc(p *outcome.Plan) *planDoc {
	b := p.Blocks
	d := &planDoc{gridDoc: newGridDoc(p.Grid), Blocks: b.Count(), BlockWidth: b.WindowWidth,
		BlockHeight: b.WindowHeight, Overlap: b.Overlap, Workers: p.Workers, Kind: p.Kind,
		WorkersRead: p.WorkersRead, NoCopies: p.NoCopies, Readers: p.Readers,
		InMemory: p.Buffers, Memory: p.MemoryBytes, Budget: p.BudgetBytes, Cache: p.CacheBytes, Ahead: p.AheadBytes,
		Inputs: []planInputDoc{}, Outputs: []planFileDoc{}, Notes: noteTexts(p.Notes), Warnings: noteTexts(p.Warnings)}
	d.Skipped = p.SkippedBlocks
	if r := p.Replaced; r != nil {
		d.Replaced = &replacedDoc{orEmpty(r.Paths), blocksDoc{r.Total, r.Blocks}, orEmpty(r.Changes)}
	}
	for _, in := range p.Inputs {
		doc := planInputDoc{Name: in.Name, Path: in.Path, Description: in.Description, Decodes: in.Decodes,
			Access: in.Access, Why: in.Why, NeedBytes: in.NeedBytes, Warped: in.Warped}
		if in.FileBytes > 0 {
			doc.Bytes = &in.FileBytes
		}
		if doc.Item = in.Item; !in.Time.IsZero() {
			when := in.Time.UTC()
			doc.Time = &when
		}
		if in.Warped != "" {
			doc.Scale = &warpScale{in.XScale, in.YScale}
		}
		d.Inputs = append(d.Inputs, doc)
	}
	for _, o := range p.Outputs {
		f := planFileDoc{
			outputDoc:  outputDoc{o.Name, o.Path, o.Format, orEmpty(o.Options), o.Coding, newSizeDocs(o.Overviews)},
			Expression: o.Expression, Layout: tileDoc{o.TileWidth, o.TileHeight, o.RawBytes}, Bands: []bandDoc{},
			Notes: noteTexts(o.Notes), Polygons: o.Polygons}
		for i := range max(o.Bands, 1) {
			if o.Table {
				break
			}
			scaling := outcome.Scaling{Scale: 1}
			if i < len(o.Scalings) {
				scaling = o.Scalings[i]
			}
			f.Bands = append(f.Bands, newBandDoc(i, o.Type, newPixelValue(o.Nodata), scaling))
		}
		d.Outputs = append(d.Outputs, f)
	}
	return d
}
