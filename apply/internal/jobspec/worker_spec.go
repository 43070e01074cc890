package jobspec

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"leat/block"
	"leat/ndarray"
	"leat/raster"
)

// Spec describes a run to a worker in another process, as JSON (docs/format/worker.md). It
// contains all decisions, so that no worker has to repeat one.
type Spec struct {
	Expressions map[string]string `json:"expressions,omitempty"`
	Variables   map[string]string `json:"variables,omitempty"`
	Tables      map[string]string `json:"tables,omitempty"` // of expressions, by name
	Function    string            `json:"function,omitempty"`
	Params      []byte            `json:"params,omitempty"`
	Emits       bool              `json:"emits,omitempty"`
	Merges      bool              `json:"merges,omitempty"` // whether emitted values are merged
	// MergesWorkers means that the run takes the values that Close returns.
	MergesWorkers bool                  `json:"merges_workers,omitempty"`
	BigEndian     bool                  `json:"big_endian,omitempty"` // byte order of overview pixels in results
	Inputs        []InputSpec           `json:"inputs"`
	Outputs       map[string]OutputSpec `json:"outputs"`
	Controls      Controls              `json:"controls"`
	Grid          raster.Grid           `json:"grid"`
	Blocks        block.Plan            `json:"blocks"`
	// Domain is the window in which focal functions see pixels; nil without them.
	Domain *block.Window `json:"domain,omitempty"`
	// Reads means that workers open and read the inputs themselves; otherwise the arrays of blocks
	// come in shared memory.
	Reads      bool  `json:"reads"`
	CacheBytes int64 `json:"cache_bytes,omitempty"`
	// OutputBytes is what the outputs of one block may take if a function in another process makes
	// them.
	OutputBytes int64 `json:"output_bytes,omitempty"`
	// AheadBytes is the maximum size of the pieces of remote files that a worker that reads fetches
	// at once.
	AheadBytes int64 `json:"ahead_bytes,omitempty"`
	ExtraReads int   `json:"extra_reads,omitempty"` // see plan.Plan
	GDALBytes  int64 `json:"gdal_bytes,omitempty"`  // size of GDAL's cache
	Mixed      bool  `json:"mixed,omitempty"`       // workers need not produce the same bytes
	Workers    int   `json:"workers"`
	// Results are handles of memory for results, by the number of the worker; those without one,
	// such as replacements, send their results.
	Results []string `json:"results,omitempty"`
	Site    []byte   `json:"site,omitempty"`
}

// InputSpec is a file of an input, with the run's decisions on it.
type InputSpec struct {
	Name      string            `json:"name"`
	List      bool              `json:"list,omitempty"`
	Index     int               `json:"index"`
	Item      int               `json:"item"`           // of the list that the file belongs to
	Path      string            `json:"path"`           // for messages
	From      string            `json:"from,omitempty"` // to open; only if workers read
	Info      raster.Info       `json:"info"`
	Layers    []int             `json:"layers"`
	Nodata    []*ndarray.Scalar `json:"nodata"`
	ColOffset int               `json:"column_offset"` // from a column of the run's grid to one of the file
	RowOffset int               `json:"row_offset"`
	Mode      ReadMode          `json:"access,omitempty"` // how the file is read if it is in a store
	Masks     []MaskSource      `json:"masks"`
	Time      time.Time         `json:"time,omitzero"`   // when it was taken
	Scale     float64           `json:"scale,omitempty"` // given by the job in place of the file's; 0: none
	Offset    float64           `json:"offset,omitempty"`
	// Version is the version that the run opened; only if workers read.
	Version *FileVersion `json:"version,omitempty"`
	// Warp describes how the file is warped onto the grid; only if workers read.
	Warp *Warp `json:"warp,omitempty"`
}

// OutputSpec is an output without its file.
type OutputSpec struct {
	Spec   Output          `json:"spec"`
	Type   ndarray.DType   `json:"type"`  // NoType: that of the first block
	Bands  int             `json:"bands"` // 0: those of the first block
	Nodata *ndarray.Scalar `json:"nodata,omitempty"`
}

// ParseSpec parses what Marshal returned in the process of the run. A machine of another byte order
// can't work for it.
func ParseSpec(text []byte) (*Spec, error) {
	s := &Spec{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("the run's description can't be read: %w", err)
	}
	if s.BigEndian != BigEndian {
		return nil, errors.New("this machine has another byte order than the run's")
	}
	return s, nil
}

// Marshal returns the spec as JSON.
func (s *Spec) Marshal() (json.RawMessage, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("the run can't be described to workers: %w", err)
	}
	return text, nil
}

// PlainScales replaces scales and offsets that JSON can't represent. If the job uses them, it
// returns an error.
func PlainScales(info *raster.Info, used bool) error {
	info.Bands = slices.Clone(info.Bands)
	for i := range info.Bands {
		b := &info.Bands[i]
		if b.Scale-b.Scale == 0 && b.Offset-b.Offset == 0 {
			continue
		}
		if used {
			return Errorf("Controls.Unscale",
				"has a band %d with scale %v and offset %v, by which workers in other processes can't compute", i+1, b.Scale,
				b.Offset)
		}
		b.Scale, b.Offset = 1, 0
	}
	return nil
}

// Check returns an error if the file that a worker opened, with this version and metadata, differs
// from the one that the run opened.
func (d *InputSpec) Check(version *FileVersion, now raster.Info) error {
	if d.Version == nil {
		return fmt.Errorf("%s: the run does not say which version to read", d.Path)
	}
	if text := d.Version.Mismatch(version, d.Path); text != "" {
		return errors.New(text)
	}
	if err := PlainScales(&now, false); err != nil {
		return err
	}
	if now.Grid.Width != d.Info.Grid.Width || now.Grid.Height != d.Info.Grid.Height ||
		now.Grid.Transform != d.Info.Grid.Transform || now.FileBytes != d.Info.FileBytes ||
		now.Mask != d.Info.Mask || now.MaskFromNodata != d.Info.MaskFromNodata || !slices.EqualFunc(now.Bands,
		d.Info.Bands, sameBand) {
		return fmt.Errorf("%s has another grid, other bands, or another mask than for the run: it is another file, or its metadata were changed", d.Path)
	}
	return nil
}

// sameBand reports whether the pixels of two bands have the same meaning.
func sameBand(a, b raster.Band) bool {
	return a.Type == b.Type && NodataText(a.Nodata) == NodataText(b.Nodata) && a.Scale == b.Scale &&
		a.Offset == b.Offset
}

// MaskSource is the mask of a layer, which applies in addition to nodata and NaN.
type MaskSource struct {
	Kind  raster.MaskKind `json:"kind,omitempty"`
	Alpha int             `json:"alpha,omitempty"` // number of the band, if Kind is MaskAlpha
}

// ReadMode is how a run reads a file.
type ReadMode uint8

const (
	ReadLocal  ReadMode = iota // it is a local file
	ReadNone                   // nothing of it is needed
	ReadPieces                 // pieces are fetched ahead
	ReadStaged                 // it is staged first
)

func (m ReadMode) String() string { return [...]string{"local", "not read", "in pieces", "staged"}[m] }
