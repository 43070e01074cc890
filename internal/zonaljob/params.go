package zonaljob

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"leat/block"
	"leat/internal/zonal"
	"leat/ndarray"
)

// params are the parameters of the function: what to compute of which zones. They are only read.
type params struct {
	find   func(dst []int, w block.Window) []int // the polygons of a window; nil for zones of a raster
	last   []block.Window                        // by polygon: its lower right pixel in the grid
	shapes shapes
	settings
}

// settings are the parameters other than polygons.
type settings struct {
	Grid      block.Window
	Rule      zonal.Rule
	Stats     string
	Variables []variable
	Raster    bool // the zones are the integers of the variable zonesName
}

// variable is what a run computes statistics of.
type variable struct {
	Name  string
	Type  ndarray.DType
	Bands int
}

// zonesName is the name of the input that holds the zones of a raster.
const zonesName = "zones"

// newParams indexes the polygons.
func newParams(s settings, list shapes) (*params, error) {
	p := &params{settings: s, shapes: list}
	if s.Raster {
		return p, nil
	}
	windows, err := list.windows(s.Grid)
	if err != nil {
		return nil, err
	}
	p.find = zonal.NewIndex(windows).Append
	for i, w := range windows {
		if !w.Empty() {
			windows[i] = block.Window{Col: w.Col + w.Width - 1, Row: w.Row + w.Height - 1, Width: 1, Height: 1}
		}
	}
	p.last = windows
	return p, nil
}

// cells returns the parts of the grid that the polygons may have pixels in.
func (p *params) cells() (*zonal.Cells, error) {
	c := zonal.NewCells(p.Grid.Width, p.Grid.Height)
	var polygon zonal.Polygon
	for i := range p.shapes.count() {
		if err := p.shapes.polygon(i, &polygon); err != nil {
			return nil, err
		}
		if box, ok := polygon.Bounds(); ok {
			c.Add(&polygon, box.Window().Intersect(p.Grid))
		}
	}
	return c, nil
}

// specs returns what is computed of each variable.
func (s *settings) specs() ([]*zonal.Spec, error) {
	stats, err := zonal.Parse(s.Stats)
	if err != nil {
		return nil, err
	}
	var list []*zonal.Spec
	for _, v := range s.Variables {
		spec, err := zonal.NewSpec(v.Type, s.Rule, stats)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", v.Name, err)
		}
		list = append(list, spec)
	}
	return list, nil
}

// bytesPerZone is the memory of a zone of a few statistics besides its polygon: index, last pixel
// and results.
const bytesPerZone = zonal.IndexBytesPerZone + 32 + 16 + 64

// bytes returns the memory that the parameters take in a process, and the results in the run.
func (p *params) bytes() int64 { return p.shapes.bytes() + int64(p.shapes.count())*bytesPerZone }

// pixelBytes returns the memory that a worker takes for each pixel of a block.
func (p *params) pixelBytes() (n int64, err error) {
	specs, err := p.specs()
	for i, s := range specs {
		n += s.PixelBytes(p.Variables[i].Bands)
	}
	return n, err
}

// paramsCodec encodes params: the settings as JSON and the polygons, compressed by zstd.
type paramsCodec struct{}

func (paramsCodec) Encode(v any) ([]byte, error) {
	p, ok := v.(*params)
	if !ok {
		return nil, fmt.Errorf("parameters of type %T", v)
	}
	text, err := json.Marshal(p.settings)
	if err != nil {
		return nil, err
	}
	b := binary.AppendUvarint(nil, uint64(len(text)))
	b = append(b, text...)
	b = binary.AppendUvarint(b, uint64(p.shapes.count()))
	last := int64(0)
	for _, end := range p.shapes.ends {
		b = binary.AppendUvarint(b, uint64(end-last))
		last = end
	}
	b = append(b, p.shapes.data...)
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return w.EncodeAll(b, nil), nil
}

var errParams = errors.New("damaged parameters")

func (paramsCodec) Decode(b []byte) (any, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if b, err = r.DecodeAll(b, nil); err != nil {
		return nil, err
	}
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, errParams
	}
	var s settings
	if err := json.Unmarshal(b[k:k+int(n)], &s); err != nil {
		return nil, err
	}
	b = b[k+int(n):]
	if n, k = binary.Uvarint(b); k <= 0 || n > uint64(len(b)) {
		return nil, errParams
	}
	b = b[k:]
	list := shapes{ends: make([]int64, 0, n)}
	last := int64(0)
	for range n {
		d, k := binary.Uvarint(b)
		if k <= 0 || d > uint64(len(b)) {
			return nil, errParams
		}
		b = b[k:]
		last += int64(d)
		list.ends = append(list.ends, last)
	}
	if list.data = b; last != int64(len(b)) {
		return nil, errParams
	}
	return newParams(s, list)
}

// bytesCodec encodes byte slices as they are.
type bytesCodec struct{}

func (bytesCodec) Encode(v any) ([]byte, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("a value of type %T", v)
	}
	return b, nil
}

func (bytesCodec) Decode(b []byte) (any, error) { return b, nil }
