package apply

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"leat/internal/worker/protocol"
	"leat/ndarray"
)

// description is the run's description in the spool's header: everything that its records depend
// on. What matters only when the file is laid out, such as names, colours and metadata, is not part
// of it.
type description struct {
	Build    string `json:"build"` // of the program
	Version  string `json:"version,omitempty"`
	Function string `json:"function,omitempty"`
	descriptionParams
	Outputs     []string          `json:"outputs"` // names of all outputs of the run
	Expressions map[string]string `json:"expressions,omitempty"`

	Output      string    `json:"output"` // name of the output that the spool belongs to
	Path        string    `json:"path"`
	Width       int       `json:"width"`
	Height      int       `json:"height"`
	Transform   []float64 `json:"transform,omitempty"` // in GDAL's order
	CRS         string    `json:"crs"`
	Bands       int       `json:"bands"`
	Type        string    `json:"type"`
	Nodata      string    `json:"nodata"` // "none" or a number
	Scale       float64   `json:"scale,omitempty"`
	Offset      float64   `json:"offset,omitempty"`
	TileWidth   int       `json:"tile_width"`
	TileHeight  int       `json:"tile_height"`
	Interleave  string    `json:"interleave"`
	Candidates  []string  `json:"codings"`
	Factors     []int     `json:"overviews"`
	Method      string    `json:"overview_method"`
	Statistics  bool      `json:"statistics"`
	Histogram   bool      `json:"histogram"`
	BlockWidth  int       `json:"block_width"`
	BlockHeight int       `json:"block_height"`
	Blocks      int       `json:"blocks"`
	Overlap     int       `json:"overlap"`
	Margin      string    `json:"margin"`
	NoMask      bool      `json:"no_mask"`
	Unscale     bool      `json:"unscale"`
	Collision   bool      `json:"nodata_collision"` // whether it is an error
	BigEndian   bool      `json:"big_endian"`       // byte order of overview pixels

	Inputs []descriptionInput `json:"inputs"`
}

// descriptionInput is one file of an input.
type descriptionInput struct {
	Name string `json:"name"`
	List bool   `json:"list,omitempty"`
	Path string `json:"path"`
	fileVersion
	// Layers are the layers that are read, Type is the type of all of them, and Nodata, Scales and
	// Offsets have one value for each. Col and Row lead from a pixel of the run's grid to one of
	// the file.
	Layers  []int    `json:"layers"`
	Type    string   `json:"type"`
	Nodata  []string `json:"nodata"`
	Scales  []string `json:"scales"`
	Offsets []string `json:"offsets"`
	Col     int      `json:"col"`
	Row     int      `json:"row"`
	// Warp describes how the file is warped onto the grid; nil if it already lies on it.
	Warp *descriptionWarp `json:"warp,omitempty"`
	// Vector describes how the file is rasterized; nil for a raster.
	Vector *descriptionVector `json:"vector,omitempty"`
}

// describe returns the description of the run for an output of this type and number of bands.
func (o *output) describe(t ndarray.DType, bands int, nodata *ndarray.Scalar) (*description, error) {
	job, p := o.run.job, o.run.plan
	c := &job.Controls
	build, err := protocol.BuildID()
	if err != nil {
		return nil, err
	}
	d := &description{Build: build, Version: job.Version, Expressions: job.Expressions,
		Outputs: sortedKeys(job.Outputs),
		Output:  o.name, Path: o.spec.identity(), Width: p.Grid.Width, Height: p.Grid.Height, CRS: p.Grid.CRS.String(),
		Bands: bands, Type: t.String(), Nodata: nodataText(nodata), Scale: o.spec.Scale, Offset: o.spec.Offset,
		TileWidth: o.tileW, TileHeight: o.tileH, Interleave: "band", Factors: o.factors,
		Method:     o.spec.OverviewMethod.String(),
		Statistics: !o.spec.NoStatistics, Histogram: !o.spec.NoHistogram,
		BlockWidth: p.Blocks.WindowWidth, BlockHeight: p.Blocks.WindowHeight, Blocks: p.Blocks.Count(),
		Overlap: p.Blocks.Overlap, Margin: c.Margin.String(), NoMask: c.NoMask, Unscale: c.Unscale,
		Collision: c.NodataCollision,
		BigEndian: bigEndian}
	if job.Function != "" {
		d.Function = job.Function
		if codec := job.Functions[job.Function].Params; codec != nil {
			if d.descriptionParams, err = describeParams(codec, job.Params); err != nil {
				return nil, &JobError{Err: fmt.Errorf("Job.Params can't be saved for resuming: %w",
					err)}
			}
		}
	}
	if p.Grid.HasTransform {
		d.Transform = p.Grid.Transform[:]
	}
	if o.spec.PixelInterleave && bands > 1 {
		d.Interleave = "pixel"
	}
	candidates, err := o.candidates(t)
	if err != nil {
		return nil, err
	}
	for _, c := range candidates {
		d.Candidates = append(d.Candidates, c.String())
	}
	for _, f := range o.run.in.files {
		d.Inputs = append(d.Inputs, o.run.describeInput(f))
	}
	return d, nil
}

func nodataText(v *ndarray.Scalar) string {
	if v == nil {
		return "none"
	}
	return v.String()
}

func (r *run) describeInput(f *inputFile) descriptionInput {
	d := descriptionInput{Name: f.input, List: r.in.lists[f.input], Path: f.path, fileVersion: f.version,
		Layers: f.layers, Type: f.typ.String(), Col: f.colOffset, Row: f.rowOffset, Warp: f.warp.describe()}
	if local := localFile(f.from); local != "" {
		d.Path = local
	}
	d.Bytes = f.info.FileBytes
	for i, l := range f.layers {
		b := f.info.Bands[l-1]
		d.Nodata = append(d.Nodata, nodataText(f.nodata[i]))
		d.Scales = append(d.Scales, strconv.FormatFloat(b.Scale, 'g', -1, 64))
		d.Offsets = append(d.Offsets, strconv.FormatFloat(b.Offset, 'g', -1, 64))
	}
	if f.vector != nil {
		f.vector.describe(f, r.job.Vectors[f.input], &d)
	}
	return d
}

// startSpool writes the header of the output's spool.
func (o *output) startSpool() error {
	if err := o.run.clearSpools(); err != nil {
		return err
	}
	d, err := o.describe(o.typ, o.bands, o.nodata)
	if err != nil {
		return err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return o.file.Start(text)
}

var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1
