package jobspec

import (
	"runtime"
	"strings"
	"time"

	"leat/block"
	"leat/codec"
	"leat/internal/storeurl"
	"leat/ndarray"
	"leat/raster"
	"leat/worker"
)

// Input is the description of apply.Input.
type Input struct {
	Files         []string
	List          bool
	Layers        []int
	Nodata        []string
	Scale, Offset float64
	Source        raster.Source
	Resample      string
	Overviews     bool
	Times         []time.Time
	FindTimes     bool
	Groups        []int
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

// Label returns the source's name for messages and files, without passwords.
func (v *Vector) Label() string {
	words := strings.Fields(v.Path)
	if len(words) == 1 || !strings.Contains(v.Path, "=") {
		return storeurl.Redact(v.Path)
	}
	for i, w := range words { // of a database, such as PG:dbname=a password=b
		if key, _, ok := strings.Cut(w, "="); ok && strings.Contains(strings.ToLower(key), "pass") {
			words[i] = key + "=..."
		}
	}
	return strings.Join(words, " ")
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
	OverviewMethod  string
	NoStatistics    bool
	NoHistogram     bool
	HistAux         bool
	LayerNames      []string
	Thematic        bool
	Colors          []raster.RGBA
	Categories      []string
	ColorInterp     []raster.Color
	Unit            string
	Metadata        map[string]string
	NoClobber       bool
	TempDir         string
	BeforeClose     func(info *raster.Info) error `json:"-"`
	Format          string
	Options         []string
	Table           *Table
	Polygons        bool
	Sieve           int
	Diagonals       bool
}

// Controls is the description of apply.Controls.
type Controls struct {
	Footprint                 Footprint
	Reference                 string
	Grid                      *raster.Grid
	PixelSize                 [2]float64
	CRS                       *raster.CRS
	Cutline                   string
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

// Concurrency is the description of apply.Concurrency.
type Concurrency struct {
	Workers          int
	Readers          int
	On               worker.Launcher
	OneBlockPerJob   bool
	Reading          Reading
	Command          []string
	SharedTemp       string
	Listen           string
	ReplaceWorkers   int
	NoCopies         bool
	Barrier          time.Duration
	AllowMixedBuilds bool
	WorkerConfig     []byte
}

// WorkersRead reports whether workers open and read the inputs.
func (c *Concurrency) WorkersRead() bool {
	return c.On != nil && (c.Reading == ReadByWorkers || c.Reading == ReadByKind && !c.On.Capabilities().Local)
}

// Counts returns the numbers of workers and readers, before the number of blocks is known.
func (c *Concurrency) Counts() (workers, readers int) {
	cores := runtime.GOMAXPROCS(0)
	workers, readers = c.Workers, c.Readers
	if workers == 0 {
		workers = cores
	}
	if readers == 0 {
		readers = workers
		if c.On != nil {
			readers = min(workers, cores)
		}
	}
	return workers, readers
}

// Function describes the function and the hooks of a job, which are code.
type Function struct {
	Defined bool   // whether there is a function
	Name    string // in the table of functions; "" for one that stays in this process
	Merges  bool   // whether emitted values are merged
	// MergesWorkers is whether the values of workers are merged, Closes whether there is a Close
	// that returns them.
	MergesWorkers, Closes bool
	// Params are the function's parameters. ParamsCodec encodes them, Emits the values that the
	// function emits, and WorkerValues those of Close; they may be nil.
	Params                 any
	ParamsBytes            int64 // the memory that they take in each process
	ParamsGDAL             bool  // whether GDAL was loaded to make them
	MergeBytes, PixelBytes int64 // memory of merging, and of each pixel while it is computed
	BlockPixels            int   // size of blocks to aim for; 0: that of expressions
	// Needs reports whether the function needs the block of this window; nil: it needs all.
	Needs                            func(w block.Window) bool `json:"-"`
	ParamsCodec, Emits, WorkerValues codec.Codec[any]
	// Source identifies the source of a function in another language; "" for Go. DescribedParams
	// are then its parameters as they are compared when a run is resumed.
	Source          string
	DescribedParams any
	// Loading, if not nil, waits until a function in another language is loaded, and returns
	// Source and MergesWorkers, which are not known before.
	Loading func() (source string, mergesWorkers bool) `json:"-"`
}

// Loaded returns the function with all fields, after waiting for it to be loaded.
func (f *Function) Loaded() Function {
	l := *f
	if f.Loading != nil {
		l.Source, l.MergesWorkers = f.Loading()
		l.Loading = nil
	}
	return l
}

// Job is the description of apply.Job without code.
type Job struct {
	Inputs      map[string]Input
	Vectors     map[string]Vector
	Outputs     map[string]Output
	Expressions map[string]string // nil for a function
	Tables      map[string]string // of expressions, by name
	Variables   map[string]string // expressions by name whose pixels the function gets
	Function    Function
	Controls    Controls
	Concurrency Concurrency
	Version     string
	Resume      bool
	// BudgetBytes is Controls.MemoryBytes or its default.
	BudgetBytes int64
}

// IsInput reports whether the job has an input of this name.
func (j *Job) IsInput(name string) bool {
	_, raster := j.Inputs[name]
	_, vector := j.Vectors[name]
	return raster || vector
}

// Resumable reports whether a failed run of the job can be resumed. Values of workers are lost with
// the run.
func (j *Job) Resumable() bool {
	f := &j.Function
	return len(j.Outputs) > 0 && (!f.Merges || f.Emits != nil) && !f.Loaded().MergesWorkers
}
