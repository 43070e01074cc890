package jobspec

import (
	"leat/block"
	"leat/ndarray"
	"leat/raster"
	"leat/raster/overview"
)

// Input is the description of apply.Input.
type Input struct {
	Files     []string
	List      bool
	Layers    []int
	Nodata    []string
	Source    raster.Source
	Resample  string
	Overviews bool
}

// Vector is the description of apply.Vector.
type Vector struct {
	Path        string
	Layer       string
	SQL         string
	Where       string
	Attribute   string
	Burn        *float64
	Null        *float64
	Type        ndarray.DType
	AllTouched  bool
	Nodata      string
	OpenOptions []string
}

// Output is the description of apply.Output.
type Output struct {
	Path            string
	Type            ndarray.DType
	Bands           int
	Nodata          string
	Scale, Offset   float64
	Compression     string
	Predictor       int
	Level           int
	TileSize        int
	PixelInterleave bool
	BigTIFF         bool
	Overviews       []int
	NoOverviews     bool
	COG             bool
	OverviewMethod  overview.Method
	NoStatistics    bool
	NoHistogram     bool
	HistAux         bool
	LayerNames      []string
	Thematic        bool
	Colors          []raster.RGBA
	Unit            string
	Metadata        map[string]string
	NoClobber       bool
	TempDir         string
	BeforeClose     func(info *raster.Info) error `json:"-"`
	Format          string
	Options         []string
}

// Controls is the description of apply.Controls.
type Controls struct {
	Footprint                 Footprint
	Reference                 string
	Grid                      *raster.Grid
	BBox                      *[4]float64
	Window                    *block.Window
	Overlap                   int
	Margin                    block.Margin
	WindowWidth, WindowHeight int
	MemoryBytes               int64
	NoMask                    bool
	Unscale                   bool
	NodataCollision           bool
	Extents                   []raster.Grid
}

// Footprint selects the pixels that a job covers.
type Footprint uint8

const (
	Intersection Footprint = iota // pixels that every input has
	Union                         // pixels that any input has
	Reference                     // pixels of Controls.Reference
)

func (f Footprint) String() string { return [...]string{"intersection", "union", "reference"}[f] }

// Reading selects who reads a job's inputs.
type Reading uint8

const (
	ReadByKind    Reading = iota // workers on other machines read, those on this one do not
	ReadHere                     // this process reads ahead and passes blocks to workers in shared memory
	ReadByWorkers                // each worker opens the inputs and reads its blocks
)
