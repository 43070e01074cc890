package apply

import (
	"context"
	"log/slog"
	"time"

	"leat/block"
	"leat/ndarray"
	"leat/raster"
	"leat/raster/overview"
	"leat/timing"
	"leat/worker"
)

// Func computes one block: it reads b's inputs and sets its outputs. It is called by several
// goroutines at once, each with a Block of its own. An error or a panic ends the run.
type Func func(ctx context.Context, b *Block) error

// Job says what to run over which rasters. Run does not change it.
type Job struct {
	Inputs  map[string]Input  // by the name the function or expression uses
	Outputs map[string]Output // may be empty: a job that only emits values

	// Func or Expressions (output name to band math), not both. Function names one of Functions instead, which other processes can run too;
	// its Setup, Close and Emits stand in the table.
	Func        Func
	Expressions map[string]string
	Function    string
	Functions   Functions

	// Setup makes the state of one worker, before its first block; Block.State gives it to the function. Close
	// ends it, also after an error. Both may be nil.
	Setup func(ctx context.Context, w WorkerInfo) (any, error)
	Close func(state any) error
	// Merge receives the values that blocks emitted, in the order of block numbers and, within a
	// block, of the calls of Emit. It is called by one goroutine at a time. Required when the function emits.
	Merge func(block int, value any) error
	// Emits encodes the emitted values, where they leave the process or the run can be resumed. nil: they stay, and what is left of a run that
	// fails can't be resumed.
	Emits Codec
	// Params is handed to the function by Block.Params. It must not be changed during the run.
	Params any

	Controls    Controls
	Concurrency Concurrency

	// Progress, if not nil, is called after each block, and now and then while remote inputs are waited for, or outputs laid out or uploaded, by
	// one goroutine at a time. It must be quick.
	Progress func(Progress)
	// Watch, if not nil, is given a function that tells what the run is at, before the first block. It may be called at any time then, also after Run has
	// returned.
	Watch   func(state func() State)
	Logger  *slog.Logger     // warnings; nil discards them
	Timings *timing.Recorder // nil: Run makes one
	// Open opens inputs; nil is [Open]. Inputs whose path is a URL are opened several at a time. ctx holds for all that is read of
	// them. A [Remote] is read ahead or staged. Info().Path is what messages and files call the raster. Of files that are warped only Info is asked: GDAL opens them by their names.
	Open func(ctx context.Context, path string) (raster.Source, error)
	// Store takes outputs whose Path is a URL.
	Store Store
	// Version is the caller's word for the version of Func, and of all that it depends on besides inputs: what goes on from an unfinished run must have
	// the same.
	Version string
	// Resume goes on from what a run of the same job left when it failed or was killed ([UnfinishedError]): blocks that it did are not done again, and
	// outputs are the same byte for byte as without an interruption. A job that differs is refused ([ResumeError]). Where nothing was left all blocks are
	// done. Blocks have the size that they had, unless Controls ask for another, which is refused; Input.Source is taken for what it was.
	Resume bool

	// Vectors are inputs that are rasterised onto the job's grid, by names that no input of Inputs has. They do not count for the footprint.
	Vectors map[string]Vector
}

// WorkerInfo tells Setup which worker it is for.
type WorkerInfo struct {
	Worker  int // counted from 0; in other processes those that take the place of lost ones go on counting, so that it may be Workers or more
	Workers int
	// Slot is the place, counted from 0, of this one among those that work in one process elsewhere; each has a state of its own.
	Slot int
}

// Input is one file, or a list of files that arrives as a list of arrays.
type Input struct {
	Files  []string
	List   bool  // the function sees a list, also when it has one file
	Layers []int // bands to read, counted from 1; nil: all
	// Nodata replaces what the files say: one text for all bands or one per layer; "none" means that
	// every value counts, "" keeps what the file says.
	Nodata []string
	// Source is an open raster to use instead of opening Files[0], whose name is then only used in
	// messages. The caller closes it.
	Source raster.Source
	// Resample is the method by which files off the grid of Controls.Reference or Controls.Grid are warped onto it: one of gdal.Methods; "" is near.
	// Overviews allows that reduced copies in the files are read for it, as gdalwarp -ovr AUTO does. Files on the grid are read as they are.
	Resample  string
	Overviews bool
}

// File is an Input of one file.
func File(path string) Input { return Input{Files: []string{path}} }

// Files is an Input of a list of files.
func Files(paths ...string) Input { return Input{Files: paths, List: true} }

// Output is a file to write. The zero value of each field is the default said there.
type Output struct {
	// Path is a local file, or the URL of an object that Job.Store writes: it is made in TempDir, or else the system's folder for temporary
	// files, and stays there if it can't be written to the store.
	Path string

	// Type, Bands and Nodata are what the file will have. NoType and 0 follow from the expression, or
	// from the first block, and every other block must agree. Nodata is a number, "nan", "none", or "" for the
	// rule of expressions; for a Func "" is none.
	Type   ndarray.DType
	Bands  int
	Nodata string
	// Scale and Offset, for expressions: the pixel is (value-Offset)/Scale, and the file says so. Scale 0 is 1.
	Scale, Offset float64

	Compression     string // "deflate" (default), "zstd", "lzw", "packbits", "none"
	Predictor       int    // 0: by trial
	Level           int    // 0: by trial
	TileSize        int    // pixels, a multiple of 16; 0: 512, less for rasters smaller than that
	PixelInterleave bool   // samples of a pixel side by side; default: one plane per band
	BigTIFF         bool   // also where classic TIFF would do

	Overviews      []int // powers of two; nil: RIOS's default, 4 8 ... while the smaller side stays above 128
	NoOverviews    bool
	COG            bool // overviews 2 4 8 ... until the larger side is at most 512
	OverviewMethod overview.Method

	NoStatistics bool
	NoHistogram  bool
	HistAux      bool // also write the histogram to NAME.aux.xml, where GDAL looks for it

	LayerNames []string
	Thematic   bool // LAYER_TYPE=thematic; overviews of class maps want Nearest or Mode
	Colors     []raster.RGBA
	Unit       string
	Metadata   map[string]string

	NoClobber bool   // an existing file is an error
	TempDir   string // where the unfinished output is kept; "": beside a local Path
	// BeforeClose may change names, colours and metadata just before the file is laid out. Grid, types and number of
	// bands must stay.
	BeforeClose func(info *raster.Info) error `json:"-"`

	// Format is "" or "GTiff" for leat's own GeoTIFF, else GDAL's short name of another format, in any case, which is written through GDAL. Options are that
	// format's creation options, as KEY=VALUE. COG, HistAux and the fields from Compression to BigTIFF are for GeoTIFF alone.
	Format  string
	Options []string
}

// Footprint says which pixels a job covers.
type Footprint uint8

const (
	Intersection Footprint = iota // those that every input has
	Union                         // those that any input has
	Reference                     // those of Controls.Reference
)

func (f Footprint) String() string { return [...]string{"intersection", "union", "reference"}[f] }

// Controls say how the grid is cut and what counts as a pixel. The zero value is the default.
type Controls struct {
	Footprint Footprint
	// Reference is the name of the input whose grid (of a list, its first file's) is the job's, Grid one given by itself, which is needed when there are no
	// inputs. Files off that grid are warped onto it as they are read, through GDAL. With neither, the grid is that of the first input by name, and all others must lie on it.
	Reference string
	Grid      *raster.Grid
	// BBox restricts the job to the pixels whose centres lie in (min x, min y, max x, max y), Window to a window of the footprint's
	// pixels.
	BBox   *[4]float64
	Window *block.Window

	Overlap int // margin in pixels on each side
	Margin  block.Margin
	// WindowWidth and WindowHeight of blocks; rounded up to whole output tiles. 0: planned from MemoryBytes.
	WindowWidth, WindowHeight int
	MemoryBytes               int64 // ceiling; 0: a quarter of the machine's, or of its cgroup's

	NoMask  bool // masks, alpha and nodata are not looked at: every pixel counts
	Unscale bool // expressions see pixel*scale+offset
	// NodataCollision makes a valid result that equals nodata an error instead of a warning.
	NodataCollision bool
	// Extents restrict the job to the box around these grids, in the job's system, as BBox does. Those of another system are brought into it with their
	// edges, not their corners alone.
	Extents []raster.Grid
}

// Concurrency says who works. Zeros are one per core.
type Concurrency struct {
	Workers int // compute and encode: goroutines, or processes of the kind On
	Readers int // goroutines that read ahead; 0: as many as there are workers on this machine

	// On starts workers in other processes, which must be the same program: see [Main]. nil: goroutines of this one. Workers must be said then, unless
	// SingleBlockJobs has one started for each block.
	On              worker.Kind
	SingleBlockJobs bool
	// Reading says who reads the inputs for workers in other processes.
	Reading Reading
	// Command starts a worker; nil is this program, which calls Main.
	Command []string
	// SharedTemp is a folder that all workers can reach, for secrets and logs; "": that of the first output.
	SharedTemp string
	// Listen is the address, HOST or HOST:PORT, at which workers on other machines find the run; "": those of this machine's name.
	Listen string
	// Barrier waits with the first block until all workers are there, so long at most; 0: no waiting.
	Barrier time.Duration
	// Mixed takes workers of other builds and architectures, and gives up that the output is the same byte for byte.
	Mixed bool
	// Site is told to workers (WorkOptions.Opener): how the program reaches stores, say. It may hold secrets.
	Site []byte
}

// Reading says who reads a job's inputs.
type Reading uint8

const (
	ReadByKind    Reading = iota // workers on other machines read, those on this one do not
	ReadHere                     // this process reads ahead and gives blocks to workers in shared memory
	ReadByWorkers                // each worker opens the inputs and reads its blocks
)

// Progress tells how far a run is.
type Progress struct {
	Done, Total int    // blocks
	Pixels      int64  // of the grid, in the blocks done
	Stage       string // "blocks", "rasterising", "staging", "laying out", "uploading"; "resuming" once, for what an earlier run did
}
