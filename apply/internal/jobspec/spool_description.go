package jobspec

import (
	"encoding/binary"

	"leat/ndarray"
)

// Description is the run's description in the spool's header (docs/format/spool.md): everything
// that its records depend on. What matters only when the file is laid out, such as names, colours
// and metadata, is not part of it.
type Description struct {
	Build    string `json:"build"` // of the program
	Version  string `json:"version,omitempty"`
	Function string `json:"function,omitempty"`
	Source   string `json:"source,omitempty"` // of the function, if it is in another language
	Params
	Outputs     []string          `json:"outputs"` // names of all outputs of the run
	Expressions map[string]string `json:"expressions,omitempty"`
	Tables      map[string]string `json:"tables,omitempty"` // SHA-256 by name
	Variables   map[string]string `json:"variables,omitempty"`

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
	Alpha       int       `json:"alpha,omitempty"` // band that marks valid pixels of the others
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
	Skipped     int       `json:"skipped_blocks,omitempty"` // of Blocks, that have no records
	Overlap     int       `json:"overlap"`
	Margin      string    `json:"margin"`
	Domain      []int     `json:"domain,omitempty"` // of focal functions: column, row, width and height
	PROJ        string    `json:"proj,omitempty"`   // version, where coordinates are transformed
	NoMask      bool      `json:"no_mask"`
	Unscale     bool      `json:"unscale"`
	Cutline     string    `json:"cutline,omitempty"` // name of the input that outputs are cut by
	Collision   bool      `json:"nodata_collision"`  // whether it is an error
	BigEndian   bool      `json:"big_endian"`        // byte order of overview pixels

	Inputs []DescribedFile `json:"inputs"`
}

// DescribedFile is one file of an input in a Description.
type DescribedFile struct {
	Name string `json:"name"` // of the input
	List bool   `json:"list,omitempty"`
	Item int    `json:"item,omitempty"` // index of the item that the file is a part of
	Path string `json:"path"`
	FileVersion
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
	Time    string   `json:"time,omitempty"` // when it was taken, in RFC 3339
	// Warp describes how the file is warped onto the grid; nil if it already lies on it.
	Warp *DescribedWarp `json:"warp,omitempty"`
	// Vector describes how the file is rasterized; nil for a raster.
	Vector *DescribedVector `json:"vector,omitempty"`
}

// DescribedWarp describes a warp in a Description.
type DescribedWarp struct {
	Method    string `json:"method"`
	Nodata    string `json:"nodata"`
	Overviews bool   `json:"overviews"`
	Grid      string `json:"grid"` // fingerprint
	GDAL      string `json:"gdal"` // version
}

// DescribedVector describes how an input is rasterized, apart from its files and the type of the
// pixels.
type DescribedVector struct {
	Layer       string   `json:"layer,omitempty"`
	SQL         string   `json:"sql,omitempty"`
	Where       string   `json:"where,omitempty"`
	Attribute   string   `json:"attribute,omitempty"`
	Burn        string   `json:"burn,omitempty"`
	Null        string   `json:"null"`
	AllTouched  bool     `json:"all_touched,omitempty"`
	OpenOptions []string `json:"open_options,omitempty"`
}

// BigEndian reports the byte order of this machine.
var BigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// NodataText returns the text of a nodata value in descriptions: "none" or a number.
func NodataText(v *ndarray.Scalar) string {
	if v == nil {
		return "none"
	}
	return v.String()
}
