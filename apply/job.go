package apply

import (
	"context"
	"io"
	"log/slog"
	"time"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/pyfunc"
	"leat/apply/outcome"
	"leat/block"
	"leat/codec"
	"leat/internal/vectorcopy"
	"leat/ndarray"
	"leat/objstore"
	"leat/raster"
	"leat/timing"
	"leat/worker"
)

// Func computes one block: it reads b's inputs and sets its outputs. Several goroutines call it at
// once, each with a Block of its own. An error or a panic ends the run.
type Func func(ctx context.Context, b *Block) error

// Job describes what to run over which rasters. Run does not change it.
type Job struct {
	Inputs  map[string]Input  // by the name that the function or expression uses
	Outputs map[string]Output // may be empty: a job that only emits values
	// OutputLists are lists of outputs that a function sets by [Block.SetOutList]. In results and
	// messages their names are NAME[1], NAME[2] and so on.
	OutputLists map[string][]Output

	// Set Func, Expressions (output name to expression), Python or Function. Function names one of
	// Functions, which other processes can run too; its Setup, Close, Emits and WorkerValues are in
	// the table.
	Func        Func
	Expressions map[string]string
	Function    string
	Functions   Functions
	// Python is a function in Python. Values that it emits are of the type json.RawMessage.
	Python *Python
	python *pyfunc.Function // loaded by prepare and in workers
	// pythonWorkers is the description of the function for workers on other machines.
	pythonWorkers *pyfunc.Spec
	// Tables are the contents of the files that expressions take tables from, by the names that
	// they have there: recode(a, @table.csv). A resumed run must have the same ones.
	Tables map[string]string

	// Variables are expressions by name for a function, which gets their pixels by Block.Variable
	// and reads no input directly. Where pixels may be invalid, a variable of integers below 64
	// bits has a wider type, so that no valid pixel equals nodata. [Block.VariableValid] separates
	// valid from invalid pixels.
	Variables map[string]string

	// Setup makes the state of one worker before its first block; Block.State returns it. Close
	// ends the state, even after an error, and returns its value for MergeWorkers, if that is set.
	// Both may be nil.
	Setup func(ctx context.Context, w WorkerInfo) (any, error)
	Close func(state any) (value any, err error)
	// Merge receives the values that blocks emitted, in the order of block numbers and, within a
	// block, of the calls of Emit. One goroutine at a time calls it. It is required if the function
	// emits.
	Merge func(block int, value any) error
	// Emits encodes the emitted values where they leave the process or are kept for resuming. If it
	// is nil, all blocks are computed in this process and a failed run can't be resumed.
	Emits codec.Codec[any]
	// MergeWorkers receives the values that Close returned for the states that have computed
	// blocks, in the order of worker numbers and, within a process, of slots. All blocks are done
	// then, each in exactly one value, and no output is published. One goroutine calls it. Which
	// blocks a worker computes differs from run to run: the result should not depend on that.
	//
	// The values end with the run: it can't be resumed, and fails with a [worker.LostError] that
	// names the Worker if a worker process is lost, or interrupted in a block, after results of it
	// were accepted. Emit has no such limits.
	MergeWorkers func(worker int, value any) error
	// WorkerValues encodes the values of worker processes, for which it is required. They may take
	// at most 32 MiB from each process and, until the last block is done, half of
	// Controls.MemoryBytes together.
	WorkerValues codec.Codec[any]
	// Params is returned by Block.Params. It must not be changed during the run.
	Params any
	// MakeParams makes Params when grid and variables are known, before the run is planned.
	MakeParams func(ctx context.Context, r Resolved) (MadeParams, error)

	// CheckPlan, if not nil, gets the plan before a block is computed or an output is touched. Its
	// error ends Start and MakePlan. It must not change the plan.
	CheckPlan func(p *outcome.Plan) error

	Controls    Controls
	Concurrency Concurrency

	Logger  *slog.Logger     // receives warnings; nil discards them
	Timings *timing.Recorder // nil: Run makes one
	// Open opens inputs; nil means [Open]. Inputs whose path is a URL are opened several at a time.
	// ctx applies to all reads of them. A [Remote] is read ahead or staged. Messages and files show
	// Info().Path as the raster's name. Of files that are warped only Info is used: GDAL opens them
	// by name.
	Open func(ctx context.Context, path string) (raster.Source, error)
	// Store writes outputs whose Path is a URL.
	Store Store
	// Version identifies the version of Func and of all that it depends on besides inputs. A
	// resumed run must have the same one.
	Version string
	// Resume continues from the blocks that a run of the same job kept when it failed or was killed
	// ([outcome.IncompleteError]). The outputs are the same byte for byte as without the
	// interruption. A job that differs is rejected ([outcome.ResumeError]). If nothing was kept,
	// all blocks are computed. Blocks keep their size; Controls that ask for another are rejected.
	// Input.Source is assumed to be unchanged.
	Resume bool

	// Vectors are inputs that are rasterized onto the job's grid. Their names must differ from
	// those of Inputs. They do not count toward the footprint.
	Vectors map[string]Vector
}

// MadeParams is what MakeParams returns.
type MadeParams struct {
	Params any
	// Bytes is the memory that the parameters take in each process, MergeBytes what Merge keeps in
	// the run's process, and PixelBytes what the function takes for each pixel of a block.
	Bytes, MergeBytes, PixelBytes int64
	// GDAL is set if GDAL's library was loaded to make them, which takes memory too.
	GDAL bool
	// Needs reports whether the function needs the block of this window; nil means that it needs
	// all. The run does not read other blocks, and they emit nothing. All outputs must then be
	// tables. The result must depend only on Params and the window.
	Needs func(w block.Window) bool
}

// Resolved describes a job to MakeParams.
type Resolved struct {
	Grid      raster.Grid
	Variables map[string]Variable
}

// Variable is the type and the number of bands of a variable.
type Variable struct {
	Type  ndarray.DType
	Bands int
}

// WorkerInfo identifies a worker to Setup.
type WorkerInfo struct {
	// Worker is counted from 0. Among processes, replacements of lost workers get new numbers, so
	// it may be Workers or more.
	Worker  int
	Workers int
	// Slot is the index of this worker among those that share one worker process, counted from 0;
	// each has a state of its own.
	Slot int
}

// Input is one file, or a list of files that a function sees as a list of arrays.
type Input struct {
	Files  []string
	List   bool  // the function sees a list even if there is one file
	Layers []int // bands to read, counted from 1; nil: all
	// Nodata replaces the nodata values of the files: one string for all bands or one per layer.
	// "none" means that every value is valid, "" keeps the file's value.
	Nodata []string
	// Scale and Offset replace the scale and offset of all bands of the files, and apply to this
	// input with or without Controls.Unscale. Scale 0 keeps those of the files.
	Scale, Offset float64
	// Source is an open raster to use instead of opening Files[0], whose name then appears in
	// messages only. The caller closes it.
	Source raster.Source
	// Resample is the method by which files off the grid of Controls.Reference or Controls.Grid are
	// warped onto it, in gdalwarp's names: "near", "bilinear", "cubic", "cubicspline", "lanczos",
	// "average", "rms" (GDAL 3.3 or later), "mode", "min", "max", "median", "q1" or "q3"; "" is
	// "near". Overviews allows reading reduced copies in the files for it, as gdalwarp -ovr AUTO
	// does. Files on the grid are read as they are.
	Resample  string
	Overviews bool
	// Times say when the files were taken, one for each. The zero time is unknown; nil means that
	// all are. Expressions such as trend(t, times) need them. FindTimes finds them in the metadata
	// of the files (ACQUISITIONDATETIME, datetime), else as the first date in their names or those
	// of their directories, else in TIFFTAG_DATETIME. A file without a time is an error then.
	Times     []time.Time
	FindTimes bool
	// Groups are the numbers of consecutive files that make up each item of a list: pixels of an
	// item are those of its first file that has a valid one there. Their sum is the number of
	// files; nil means that each file is an item. Only expressions can have them.
	Groups []int
}

// File returns an Input of one file.
func File(path string) Input { return Input{Files: []string{path}} }

// Files returns an Input of a list of files.
func Files(paths ...string) Input { return Input{Files: paths, List: true} }

// Output is a file to write. The zero value of each field is its default.
type Output struct {
	// Path is a local file, or the URL of an object that Job.Store writes. Such an object is made
	// in TempDir, by default the system's directory for temporary files, and stays there if it
	// can't be uploaded.
	Path string

	// Type, Bands and Nodata are those of the file. NoType and 0 bands mean those of the
	// expression, or of the first block, which all other blocks must match. Nodata is a number,
	// "nan", "none", or "" for the rule of expressions; for a Func "" means none.
	Type   ndarray.DType
	Bands  int
	Nodata string
	// Scale and Offset apply to expressions: the pixel is (value-Offset)/Scale, and the file stores
	// both. If both are 0, bands of selected input pixels have the scale, offset and unit on which
	// their inputs agree, and others have scale 1.
	Scale, Offset float64

	Compression     string // "deflate" (default), "zstd", "lzw", "packbits", "none"
	Predictor       int    // 0: chosen by trial
	Level           int    // 0: chosen by trial
	TileSize        int    // pixels, a multiple of 16; 0: 512, less for smaller rasters
	PixelInterleave bool   // samples of a pixel next to each other; default: one plane per band
	BigTIFF         bool   // even if classic TIFF would do

	Overviews   []int // powers of two; nil: RIOS's default, 4 8 ... 512 while the smaller side exceeds 128
	NoOverviews bool
	COG         bool // overviews 2 4 8 ... until the larger side is at most 512
	// OverviewMethod is how pixels of a cell become one pixel of an overview: "nearest" (default)
	// is the upper left pixel, "center" the pixel at the centre, "average" the mean of the valid
	// pixels, and "mode" the most frequent valid value.
	OverviewMethod string

	NoStatistics bool
	NoHistogram  bool
	HistAux      bool // also write the histogram to NAME.aux.xml, where GDAL looks for it

	LayerNames []string
	Thematic   bool          // LAYER_TYPE=thematic; use "nearest" or "mode" for overviews of class maps
	Colors     []raster.RGBA // colour table: entry i is the colour of value i
	// Categories are the names of the values 0, 1, 2 and so on of an output of one band. GDAL and
	// QGIS find those of a GeoTIFF in NAME.aux.xml, which holds the colour table too if it has
	// translucent colours, which TIFF can't store. An output band that copies a band of an input
	// unchanged has the names of that band.
	Categories []string
	// ColorInterp is the meaning of each band when the raster is displayed; "" or a missing one
	// keeps the default. If a band is alpha, statistics and overviews count the pixels of the other
	// bands as invalid where it is 0, as readers do.
	ColorInterp []raster.Color
	Unit        string            // of the values of all bands, such as "m"; "": not given
	Metadata    map[string]string // items of GDAL's default domain

	NoClobber bool   // an existing file is an error
	TempDir   string // directory of the unfinished output; "": that of a local Path
	// BeforeClose may change names, colours and metadata just before the file is laid out. Grid,
	// types and number of bands must not change.
	BeforeClose func(info *raster.Info) error `json:"-"`

	// Format is "" or "GTiff" for leat's own GeoTIFF, else GDAL's short name of another format in
	// any case, which is written through GDAL. Options are that format's creation options, as
	// KEY=VALUE. COG, HistAux and the fields from Compression to BigTIFF apply to GeoTIFF only.
	Format  string
	Options []string

	// Table makes this an output of values, without pixels. Of the other fields, only Path,
	// NoClobber and TempDir are used. nil: it is a raster.
	Table *Table

	// Polygons makes this an output of the polygons around connected pixels of equal value, with
	// the value as the attribute "value", in a layer "polygons". The ending of Path, .gpkg or
	// .geojson, selects GeoPackage or GeoJSON. GDAL makes them when all pixels are computed. The
	// pixels are integers of one band that int32 holds; invalid ones are in no polygon. Type,
	// Bands, Nodata, NoClobber and TempDir are used as for rasters, and of the other fields only
	// the following two.
	//
	// Sieve is the minimum number of pixels of a polygon. Smaller groups of pixels get the value of
	// their largest neighbour, or become invalid if it is smaller too. 0 keeps all. Diagonals
	// connects pixels that touch at a corner. Polygons may then touch themselves, which some
	// programs reject.
	Polygons  bool
	Sieve     int
	Diagonals bool
}

// Table makes an output hold what a job computes from emitted values instead of pixels. It has the
// fields
//
//   - Format string: the name of the format in plans and results.
//   - Sidecars []string: suffixes of files next to an older output that readers would take for
//     parts of the new one. They are removed when it is published.
//   - Write func(ctx context.Context, f *os.File) error: it writes the output into an empty file,
//     after Job.Merge has received all values. The run publishes the file.
type Table = jobspec.Table

// Footprint selects the pixels that a job covers.
type Footprint = jobspec.Footprint

const (
	Intersection = jobspec.Intersection // pixels that every input has
	Union        = jobspec.Union        // pixels that any input has
	Reference    = jobspec.Reference    // pixels of Controls.Reference
)

// Controls define the grid, its blocks and which pixels are valid. The zero value is the default.
type Controls struct {
	Footprint Footprint
	// Reference is the name of the input whose grid (for a list, its first file's) the job uses, or
	// the path or URL of another raster that has the grid, see [GridOf]. Grid is a grid given
	// explicitly, which is required if there are no inputs. Files off that grid are warped onto it
	// through GDAL as they are read. With neither, the grid is that of the first input by name, and
	// all others must lie on it.
	Reference string
	Grid      *raster.Grid
	// PixelSize, if not 0, is the width and height of the pixels of a grid whose edges are
	// multiples of them. The grid is in CRS or, without one, in the CRS of Reference or Grid. Its
	// pixels are those that the inputs touch. Inputs off that grid are warped onto it.
	PixelSize [2]float64
	CRS       *raster.CRS
	// Cutline is the name of a vector. Pixels of all outputs whose centre is in none of its
	// polygons are invalid. Edges that are straight in another CRS become curves on the grid. Only
	// expressions can have one.
	Cutline string
	// BBox restricts the job to the pixels whose centres lie in (min x, min y, max x, max y),
	// Window to a window of the footprint's pixels.
	BBox   *[4]float64
	Window *block.Window

	Overlap int // margin in pixels on each side
	Margin  block.Margin
	// WindowWidth and WindowHeight are the size of blocks, rounded up to whole output tiles. 0:
	// planned from MemoryBytes.
	WindowWidth, WindowHeight int
	MemoryBytes               int64 // limit; 0: a quarter of the machine's memory, or of its cgroup's

	NoMask  bool // ignore masks, alpha and nodata: every pixel is valid
	Unscale bool // expressions see pixel*scale+offset
	// NodataCollision makes a valid result that equals nodata an error instead of a warning.
	NodataCollision bool
	// Extents restrict the job to the box around these grids in the job's CRS, as BBox does. Grids
	// in another CRS are transformed with their edges, not their corners alone.
	Extents []raster.Grid
}

// Concurrency sets the workers and readers. A number of 0 means one per core.
type Concurrency struct {
	Workers int // goroutines, or processes that On starts; they compute and encode
	Readers int // goroutines that read ahead; 0: as many as there are workers on this machine

	// On starts worker processes, which must be the same program: see [Main]. nil: workers are
	// goroutines of this process. With On, Workers is required, unless OneBlockPerJob starts one
	// worker for each block.
	On             worker.Launcher
	OneBlockPerJob bool
	// Reading selects who reads the inputs if On is set.
	Reading Reading
	// Command starts a worker; nil is this program, which calls Main.
	Command []string
	// SharedTemp is a directory that all workers can reach, for secrets and logs; "": that of the
	// first output.
	SharedTemp string
	// Listen is the address, HOST or HOST:PORT, at which workers on other machines reach the run;
	// "": the addresses of this host's name.
	Listen string
	// ReplaceWorkers is how many workers within an hour are started in place of others that were
	// lost or exited early; 0: as many as Workers, negative: none. A worker that was the third to
	// be lost with one block is not replaced.
	ReplaceWorkers int
	// NoCopies leases each block to one worker at a time. Without it, idle workers compute copies
	// of the last blocks; the first result counts, and a function may see a block several times.
	NoCopies bool
	// Barrier is the maximum time to wait for all workers before the first block; 0: no waiting.
	Barrier time.Duration
	// AllowMixedBuilds accepts workers of other builds and architectures. The output may then
	// differ from that of one build.
	AllowMixedBuilds bool
	// WorkerConfig is sent to workers (WorkOptions.Opener), for example how to reach stores. It may
	// contain secrets.
	WorkerConfig []byte
}

// Reading selects who reads a job's inputs.
type Reading = jobspec.Reading

const (
	ReadByKind    = jobspec.ReadByKind    // workers on other machines read, those on this one do not
	ReadHere      = jobspec.ReadHere      // this process reads ahead and passes blocks to workers in shared memory
	ReadByWorkers = jobspec.ReadByWorkers // each worker opens the inputs and reads its blocks
)

// Vector is an input made of vectors. The run rasterizes them onto its grid, as gdal_rasterize
// does, once and before the first block. A function or expression sees an input of one file with
// one band. Its pixels are defined in margins too, even outside the grid, and all of them are valid
// unless Nodata says otherwise. Until the last block is done, the raster is stored in the directory
// of the first unfinished output (Output.TempDir), or in Concurrency.SharedTemp if workers on other
// machines read it.
type Vector struct {
	Path string // OGR's name of the source: a file, a directory, a database, or a name such as one under /vsizip/
	// Layer is the name of a layer or, if no layer has that name, its number from 0. "" is the only
	// layer of the source.
	Layer string
	SQL   string // a statement whose result is rasterized instead of a layer
	Where string // rasterize only features that meet this condition; not with SQL

	// Attribute is the name of the attribute whose value each feature is burned with; GDAL uses 0
	// for a feature without a value. With "", all features are burned with Burn, or 1 if that is
	// nil.
	Attribute string
	Burn      *float64
	// Null is the value of pixels outside all features; 0 if nil.
	Null *float64
	// Type is the type of the pixels. The default for a constant value is the first of uint8, int32
	// and float64 that can represent it and Null; for an attribute it is int32 or int64 if the
	// attribute is an integer of 32 or 64 bits, else float64. A value that the type can't represent
	// is an error; only float32 rounds.
	Type ndarray.DType
	// AllTouched burns all pixels that a line or polygon touches. By default a polygon burns the
	// pixels whose centre it covers, and a line those on it.
	AllTouched bool
	// Nodata is the value of invalid pixels, for example that of Null. "" or "none" makes all
	// pixels valid.
	Nodata string
	// OpenOptions are options of the format's driver in OGR, as KEY=VALUE.
	OpenOptions []string
}

// Store writes outputs whose Path is a URL. Errors name the URL without secrets.
type Store interface {
	// Check returns an error if nothing can be written there, as far as can be found out without
	// writing.
	Check(ctx context.Context, url string) error
	// Exists reports whether the object exists. If the store does not reveal that, the error is
	// fs.ErrPermission.
	Exists(ctx context.Context, url string) (bool, error)
	// Upload writes size bytes of r as an object: completely or not at all.
	Upload(ctx context.Context, url string, r io.ReaderAt, size int64, o objstore.UploadOptions) error
}

// Fetcher is a [Store] from which vectors can be copied to local files, which GDAL reads. Its
// method Fetch(ctx context.Context, url string, w io.Writer) (objstore.Info, error) writes an
// object to w and returns the store's description of its version.
type Fetcher = vectorcopy.Fetcher
