package zonaljob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"leat/apply"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/gdal"
	"leat/internal/sysmem"
	"leat/internal/table"
	"leat/internal/zonal"
)

// Options describes a job of zonal statistics. Call Close after the run.
type Options struct {
	Path string // of the table
	// Zones are the polygons, and By the attributes that identify them; without any, their numbers
	// (FID) do. Raster, if not nil, is a raster of zone numbers instead.
	Zones   gdal.VectorRequest
	By      []string
	Outside Outside
	Raster  *apply.Input

	Stats     string // a list as zonal.Parse reads it
	Rule      zonal.Rule
	Variables map[string]string // expressions by name
	NoClobber bool
	TempDir   string
	Warn      func(text string) // called before the first block

	run *run // of the job that Complete completed
}

// run is the state of a job of zonal statistics in the process of the run.
type run struct {
	o       *Options
	stats   []zonal.Statistic
	format  format
	zones   *zoneList
	merger  *merger
	memory  func() int64 // limit of the run in bytes
	columns []table.Column

	// For an output of features: what is written, and the state of the zones' file before it was
	// read.
	features *gdal.FeatureFile
	source   fs.FileInfo
}

// Complete adds inputs, function and output to a job that already has the inputs of the
// expressions.
func Complete(job *apply.Job, o *Options) error {
	r := &run{o: o}
	o.run = r
	var errs []error
	var err error
	if r.stats, err = zonal.Parse(o.Stats); err != nil {
		errs = append(errs, err)
	}
	if r.format, err = formatOf(o.Path); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, r.checkFeatures())
	job.Variables = map[string]string{}
	for name, expression := range o.Variables {
		job.Variables[name] = expression
	}
	if o.Raster != nil {
		if _, taken := job.Inputs[zonesName]; taken {
			errs = append(errs, fmt.Errorf("input %s: the zones have this name, expected another", zonesName))
		}
		if _, taken := o.Variables[zonesName]; taken {
			errs = append(errs, fmt.Errorf("variable %s: the zones have this name, expected another", zonesName))
		}
		job.Inputs[zonesName] = *o.Raster
		job.Variables[zonesName] = zonesName
	}
	job.Functions, job.Function = Functions(), functionName
	r.memory = func() int64 { return cmp.Or(job.Controls.MemoryBytes, sysmem.DefaultLimit()) }
	job.MakeParams = r.makeParams
	job.Merge = func(_ int, v any) error { return r.merger.add(v.([]byte)) }
	job.Outputs = map[string]apply.Output{OutputName: {Path: o.Path, NoClobber: o.NoClobber, TempDir: o.TempDir,
		Table: &apply.Table{Format: r.format.name, Sidecars: r.format.sidecars, Write: r.write}}}
	return errors.Join(errs...)
}

// tempDir returns the directory of the unfinished table; "" is the system's.
func (r *run) tempDir() string {
	if r.o.TempDir == "" && !strings.Contains(r.o.Path, "://") {
		return filepath.Dir(r.o.Path)
	}
	return r.o.TempDir
}

// OutputName is the name of the job's output.
const OutputName = "table"

// makeParams reads the zones, and prepares the merger and the columns of the table.
func (r *run) makeParams(ctx context.Context, job apply.Resolved) (made apply.MadeParams, err error) {
	g := job.Grid
	s := settings{Grid: block.Window{Width: g.Width, Height: g.Height}, Rule: r.o.Rule, Stats: r.o.Stats,
		Raster: r.o.Raster != nil}
	names := make([]string, 0, len(r.o.Variables))
	for name := range r.o.Variables {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		v := job.Variables[name]
		s.Variables = append(s.Variables, variable{name, v.Type, v.Bands})
	}
	if _, err := s.specs(); err != nil {
		return made, &outcome.JobError{Err: err}
	}
	var list shapes
	if s.Raster {
		if err := checkZonesRaster(job.Variables[zonesName], r.o.Raster.Files[0]); err != nil {
			return made, err
		}
	} else {
		r.source = r.statZones()
		if r.zones, err = readZones(ctx, r.o.Zones, r.o.By, g, r.o.Outside); err != nil {
			if unmet := new(*gdal.RequestError); errors.As(err, unmet) {
				err = &outcome.JobError{Err: err}
			}
			return made, err
		}
		list = r.zones.shapes
		for _, text := range r.zones.warnings() {
			r.o.Warn(text)
		}
	}
	p, err := newParams(s, list)
	if err != nil {
		return made, err
	}
	if r.merger, err = newMerger(p, r.memory(), r.tempDir()); err != nil {
		return made, err
	}
	if r.columns, err = r.tableColumns(s.Variables); err != nil {
		return made, err
	}
	if r.format.driver != "" {
		if r.features, err = r.featureFile(); err != nil {
			return made, err
		}
	}
	made = apply.MadeParams{Params: p, Bytes: p.bytes(), MergeBytes: r.merger.bytes()}
	if !s.Raster {
		cells, err := p.cells()
		if err != nil {
			return made, err
		}
		made.GDAL, made.Needs = true, cells.Overlap
		made.MergeBytes += cells.Bytes()
	}
	made.PixelBytes, err = p.pixelBytes()
	return made, err
}

// checkZonesRaster returns an error unless zones are integers of one band.
func checkZonesRaster(v apply.Variable, path string) error {
	switch {
	case !v.Type.IsInteger():
		return jobErrorf("zones %s: pixels of %v, expected integers", path, v.Type)
	case v.Type.Size() == 8 && !v.Type.IsSigned():
		return jobErrorf("zones %s: pixels of %v, expected integers of at most 32 bits, or int64", path, v.Type)
	}
	if v.Bands != 1 {
		return jobErrorf("zones %s: %d bands, expected one", path, v.Bands)
	}
	return nil
}

// tableColumns returns the columns of the table: what identifies zones, and the statistics of each
// band of each variable.
func (r *run) tableColumns(variables []variable) ([]table.Column, error) {
	var list []table.Column
	switch {
	case r.zones == nil:
		list = append(list, table.Column{Name: "zone", Type: table.Int64})
	case len(r.o.By) == 0:
		list = append(list, table.Column{Name: "fid", Type: table.Int64})
	default:
		for i, name := range r.o.By {
			list = append(list, table.Column{Name: name, Type: idType(r.zones.types[i])})
		}
	}
	i := 0
	for _, v := range variables {
		for band := range v.Bands {
			prefix := ""
			if len(variables) > 1 {
				prefix = v.Name + "_"
			}
			if v.Bands > 1 {
				prefix = fmt.Sprintf("%s_%d_", v.Name, band+1)
			}
			for _, c := range r.merger.specs[i].Columns() {
				list = append(list, table.Column{Name: prefix + c.Name, Type: columnType(c.Type)})
			}
			i++
		}
	}
	names := map[string]bool{}
	for _, c := range list {
		if names[c.Name] {
			return nil, jobErrorf("the table would have two columns %s, expected an attribute or a variable of another name", c.Name)
		}
		names[c.Name] = true
	}
	return list, nil
}

// idType returns the type of a column of an attribute's values.
func idType(ogr string) table.Type {
	switch ogr {
	case "Integer", "Integer64":
		return table.Int64
	case "Real":
		return table.Float64
	}
	return table.Text
}

func columnType(t zonal.ColumnType) table.Type {
	switch t {
	case zonal.Int64:
		return table.Int64
	case zonal.Uint64:
		return table.Uint64
	case zonal.Histogram:
		return table.Text
	}
	return table.Float64
}

// write writes the table: a row for each zone, in the order of the source, or of the numbers of a
// raster.
func (r *run) write(ctx context.Context, f *os.File) error {
	if err := r.merger.finish(); err != nil {
		return err
	}
	if r.features != nil {
		return r.writeFeatures(ctx, f)
	}
	w, err := r.format.table.New(f, r.columns)
	if err != nil {
		return err
	}
	rows := r.newRows()
	for i := range len(r.merger.done.places) {
		if i%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		row, err := rows.row(i)
		if err != nil {
			return err
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	return w.Close()
}

// rows makes the rows of the table, in memory that it reuses.
type rows struct {
	r      *run
	cells  []any
	values []zonal.Value
}

func (r *run) newRows() *rows { return &rows{r: r, cells: make([]any, 0, len(r.columns))} }

// row returns the row of zone i, which is valid until the next call.
func (s *rows) row(i int) (_ []any, err error) {
	if s.values, err = s.r.merger.row(s.values[:0], i); err != nil {
		return nil, err
	}
	s.cells = s.r.appendID(s.cells[:0], i)
	for _, v := range s.values {
		s.cells = append(s.cells, cell(v))
	}
	return s.cells, nil
}

// appendID appends what identifies zone i.
func (r *run) appendID(row []any, i int) []any {
	switch {
	case r.zones == nil:
		return append(row, r.merger.order[i])
	case len(r.o.By) == 0:
		return append(row, r.zones.fids[i])
	}
	for _, ids := range r.zones.ids {
		row = append(row, ids[i])
	}
	return row
}
