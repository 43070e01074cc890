package gdal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"leat/ndarray"
	"leat/raster"
)

// Spec describes what [Create] creates.
type Spec struct {
	Driver  string   // GDAL's short name of the format
	Options []string // creation options of the format, as KEY=VALUE

	Grid  raster.Grid // size, transform and coordinate reference system, or ground control points, and RPCs
	Bands int
	Type  ndarray.DType // of all bands
	// Nodata is of Type (for complex types, of their parts), or nil.
	Nodata *ndarray.Scalar
	// BandInfo gives each band's Name, Color, Colors, Scale, Offset, Unit and Metadata; other
	// fields are ignored. It may be nil.
	BandInfo []raster.Band
	// Metadata and Domains become metadata items of the file.
	Metadata map[string]string
	Domains  map[string]map[string]string
	// NoClobber makes publishing fail with an error that wraps fs.ErrExist if the output exists.
	NoClobber bool
}

// Writer writes one raster. Its files are in a hidden directory next to the output until Close
// publishes them; until then, and after Discard, an old output is unchanged. Methods may be called
// concurrently; they run one at a time.
//
// Formats that GDAL can't fill in any order are first written to an uncompressed GeoTIFF in that
// directory and copied at the end. No pixels can be written after Finish, Close, BuildOverviews or
// a method of statistics and histograms.
type Writer struct {
	path   string
	spec   Spec
	driver Driver
	staged *staging

	mu     sync.Mutex
	h      hDataset
	copies bool // h is the file to copy
	sealed bool // no more pixels can be written
	whole  bool // Finish has closed the files
	err    error
	done   bool
}

// Create creates the raster at path, a plain path in an existing directory. Before it changes
// anything, it checks spec and returns all errors, including creation options that the format does
// not have.
func Create(path string, spec *Spec) (*Writer, error) {
	if err := load(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	w := &Writer{path: path, spec: *spec}
	err := w.check()
	if err != nil {
		return nil, err
	}
	if w.staged, err = newStaging(path); err != nil {
		return nil, err
	}
	if err = w.begin(); err != nil {
		return nil, errors.Join(err, w.Discard())
	}
	return w, nil
}

// Check returns the errors that [Create] of path would return before it changes anything.
func (s *Spec) Check(path string) error {
	if err := load(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return (&Writer{path: path, spec: *s}).check()
}

// check returns an error for all that can't be written.
func (w *Writer) check() error {
	if err := w.resolveSpec(); err != nil {
		return err
	}
	return replaceable(w.path, ReadAs(w.driver.Name))
}

func (w *Writer) resolveSpec() error {
	s := &w.spec
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{w.path}, args...)...))
	}
	if w.path == "" || strings.HasPrefix(w.path, "/vsi") || strings.Contains(w.path, "://") {
		bad("GDAL's formats are written to plain files; give the path of one")
	}
	d, err := DriverByName(s.Driver)
	switch {
	case err != nil:
		bad("%w", err)
	case !d.Write:
		bad("GDAL can't write rasters of the format %s (%s)", d.Name, d.LongName)
	default:
		if err := d.CheckOptions(s.Options); err != nil {
			bad("%w", err)
		}
		if s.Type.Valid() {
			if err := d.checkType(s.Type); err != nil {
				bad("%w", err)
			}
		}
	}
	w.driver = d
	if s.Grid.Width <= 0 || s.Grid.Height <= 0 || s.Grid.Width > 1<<31-1 || s.Grid.Height > 1<<31-1 {
		bad("a raster of %d x %d pixels can't be written", s.Grid.Width, s.Grid.Height)
	}
	if s.Bands <= 0 || s.Bands > 1<<16 {
		bad("%d bands can't be written", s.Bands)
	}
	if !s.Type.Valid() {
		bad("no type of pixels given")
	}
	if s.Nodata != nil && s.Nodata.Type != partType(s.Type) {
		bad("the nodata value %v is of type %v, the pixels of %v", s.Nodata, s.Nodata.Type, s.Type)
	}
	if s.BandInfo != nil && len(s.BandInfo) != s.Bands {
		bad("descriptions of %d bands given for a raster of %d", len(s.BandInfo), s.Bands)
	}
	for n, b := range s.BandInfo {
		if b.Colors != nil && s.Type != ndarray.Uint8 && s.Type != ndarray.Uint16 {
			bad("the colour table of band %d needs pixels of uint8 or uint16, not %v", n+1, s.Type)
		}
		errs = append(errs, checkText(w.path, "text of a band", append(append(texts(b.Metadata), b.Name, b.Unit), b.Categories...)...))
	}
	errs = append(errs, checkText(w.path, "name", w.path), checkText(w.path, "creation option", s.Options...),
		checkText(w.path, "item", texts(s.Metadata)...),
		checkText(w.path, "coordinate reference system", s.Grid.CRS.WKT, s.Grid.CRS.Code))
	if g := s.Grid.GCPs; g != nil {
		errs = append(errs, checkText(w.path, "coordinate reference system", g.CRS.WKT, g.CRS.Code))
		for _, p := range g.Points {
			errs = append(errs, checkText(w.path, "name of a ground control point", p.ID, p.Info))
		}
	}
	for name, m := range s.Domains {
		errs = append(errs, checkText(w.path, "item", append(texts(m), name)...))
	}
	return errors.Join(errs...)
}

func texts(m map[string]string) []string {
	var list []string
	for k, v := range m {
		list = append(list, k, v)
	}
	return list
}

// partType returns the type of nodata for pixels of t.
func partType(t ndarray.DType) ndarray.DType {
	switch t {
	case ndarray.Complex64:
		return ndarray.Float32
	case ndarray.Complex128:
		return ndarray.Float64
	}
	return t
}

// replaceable returns an error for an existing directory that is not a raster of the output's
// format.
func replaceable(path, driver string) error {
	st, err := os.Lstat(path)
	if err != nil || !st.IsDir() {
		return nil
	}
	f, err := Open(path, &Options{Drivers: []string{driver}})
	if err == nil {
		return f.Close()
	}
	if errors.Is(err, raster.ErrUnsupported) { // it holds several rasters
		return nil
	}
	return fmt.Errorf("%s is a directory but not a raster of the format %s, and is not replaced",
		path, driver)
}

// begin creates the dataset that pixels are written to.
func (w *Writer) begin() error {
	s := &w.spec
	driver, path, options := w.driver.Name, w.staged.main(), slices.Clone(s.Options)
	signed := s.Type == ndarray.Int8 && version < since37
	if w.copies = !w.driver.Direct; w.copies {
		driver, path = "GTiff", w.staged.pixels()
		side := func(n int) int { return min(512, (n+15)/16*16) }
		options = []string{"TILED=YES", fmt.Sprintf("BLOCKXSIZE=%d", side(s.Grid.Width)),
			fmt.Sprintf("BLOCKYSIZE=%d", side(s.Grid.Height)), "BIGTIFF=IF_SAFER", "INTERLEAVE=BAND"}
	}
	if signed {
		options = append(options, "PIXELTYPE=SIGNEDBYTE")
	}
	return w.try("create", func() bool {
		w.h = c.GDALCreate(c.GDALGetDriverByName(driver), path, int32(s.Grid.Width), int32(s.Grid.Height),
			int32(s.Bands), gdalType(s.Type), cStrings(options))
		if w.h == 0 {
			return false
		}
		if w.err = w.checkTypes(); w.err == nil {
			w.err = w.describe()
		}
		return true
	})
}

// checkTypes returns an error unless the dataset has all requested bands and their pixel type.
func (w *Writer) checkTypes() error {
	if n := int(c.GDALGetRasterCount(w.h)); n < w.spec.Bands {
		return fmt.Errorf("%s: the format %s makes %d bands of %d; use another format", w.path, w.driver.Name, n,
			w.spec.Bands)
	}
	for n := range w.spec.Bands {
		got := c.GDALGetRasterDataType(c.GDALGetRasterBand(w.h, int32(n+1)))
		if got == gdalType(w.spec.Type) {
			continue
		}
		made, remedy := pixelTypes[got].read, "use another format"
		if made.Valid() && w.driver.checkType(made) == nil {
			remedy = fmt.Sprintf("write %v, or another format", made)
		}
		return fmt.Errorf("%s: the format %s makes pixels of %v instead of %v; %s", w.path, w.driver.Name, made,
			w.spec.Type, remedy)
	}
	return nil
}

// try is try for the writer: the writer's error precedes GDAL's.
func (w *Writer) try(op string, f func() bool) error {
	err := w.attempt(op, f)
	if w.err != nil {
		return w.err
	}
	w.err = err
	return err
}

// attempt is try for calls whose failure leaves the raster usable.
func (w *Writer) attempt(op string, f func() bool) error {
	err := try(w.path, op, f)
	var e *Error
	if errors.As(err, &e) {
		for _, hidden := range []string{w.staged.main(), w.staged.pixels()} {
			e.Text = strings.ReplaceAll(e.Text, hidden, w.path)
		}
		e.Text = strings.TrimPrefix(e.Text, w.path+": ")
	}
	return err
}

// describe sets everything but the pixels. It must run within try.
func (w *Writer) describe() error {
	s := &w.spec
	var fault error
	ok := func(what string, result int32) {
		if result != 0 && fault == nil {
			e := lastError(w.path, "write "+what)
			e.Text = cmp.Or(e.Text, "no reason given") + "; leave it out, or use another format than " + w.driver.Name
			fault = e
		}
	}
	if s.Grid.HasTransform {
		t := s.Grid.Transform
		ok("the transform", c.GDALSetGeoTransform(w.h, &t[0]))
	}
	srs, err := srsOf(s.Grid.CRS)
	if err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	if srs != 0 {
		ok("the coordinate reference system", c.GDALSetSpatialRef(w.h, srs))
		c.OSRDestroySpatialReference(srs)
	}
	if err := w.setControl(); err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	set := func(o hObject, m map[string]string, domain string) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			c.CPLErrorReset()
			// In netCDF, a failure without a message is not one.
			if result := c.GDALSetMetadataItem(o, k, m[k], domain); c.CPLGetLastErrorType() >= classFailure {
				ok("the item "+k, result)
			}
		}
	}
	set(hObject(w.h), s.Metadata, "")
	if s.Grid.PixelIsPoint {
		set(hObject(w.h), map[string]string{"AREA_OR_POINT": "Point"}, "")
	}
	for _, d := range slices.Sorted(maps.Keys(s.Domains)) {
		set(hObject(w.h), s.Domains[d], d)
	}
	for n := range s.Bands {
		b := c.GDALGetRasterBand(w.h, int32(n+1))
		if s.Nodata != nil {
			ok("the nodata value", setNodata(b, *s.Nodata))
		}
		if s.BandInfo == nil {
			continue
		}
		i := &s.BandInfo[n]
		if i.Name != "" {
			c.GDALSetDescription(hObject(b), i.Name)
		}
		if i.Scale != 0 && i.Scale != 1 || i.Offset != 0 {
			ok("the scale", c.GDALSetRasterScale(b, cmp.Or(i.Scale, 1)))
			ok("the offset", c.GDALSetRasterOffset(b, i.Offset))
		}
		if i.Unit != "" {
			ok("the unit", c.GDALSetRasterUnitType(b, i.Unit))
		}
		if i.Colors != nil {
			ok("the colour table", setColors(b, i.Colors))
		} else if k := slices.Index(colors, i.Color); k > 0 && c.GDALGetRasterColorInterpretation(b) != int32(k) {
			// Only alpha determines which pixels are valid, so only its failure matters; few
			// formats can hold the others.
			if r := c.GDALSetRasterColorInterpretation(b, int32(k)); i.Color == raster.ColorAlpha {
				ok("that a band is alpha", r)
			}
		}
		if i.Categories != nil { // few formats can hold them
			c.GDALSetRasterCategoryNames(b, cStrings(i.Categories))
		}
		set(hObject(b), i.Metadata, "")
	}
	c.CPLErrorReset() // errors of optional items
	return fault
}

func setNodata(b hBand, s ndarray.Scalar) int32 {
	switch s.Type {
	case ndarray.Int64:
		return c.GDALSetRasterNoDataValueAsInt64(b, int64(s.Bits))
	case ndarray.Uint64:
		return c.GDALSetRasterNoDataValueAsUInt64(b, s.Bits)
	}
	return c.GDALSetRasterNoDataValue(b, s.Float64())
}

func setColors(b hBand, table []raster.RGBA) int32 {
	t := c.GDALCreateColorTable(1) // GPI_RGB
	defer c.GDALDestroyColorTable(t)
	for i, v := range table {
		c.GDALSetColorEntry(t, int32(i), &colorEntry{int16(v.R), int16(v.G), int16(v.B), int16(v.A)})
	}
	return c.GDALSetRasterColorTable(b, t)
}

// BlockSize returns the size of the format's blocks. Windows that are unions of whole blocks are
// written once; with compression, other windows leave unused bytes in some formats.
func (w *Writer) BlockSize() (width, height int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var x, y int32
	if w.h != 0 {
		c.GDALGetBlockSize(c.GDALGetRasterBand(w.h, 1), &x, &y)
	}
	return int(x), int(y)
}

// WriteBlock writes the pixels of all bands of a window inside the raster. The array has the spec's
// type, shape (bands, rows, columns) and contiguous rows; it is not retained. Windows may come in
// any order; pixels that are never written are nodata or 0. After an error, only Discard is useful.
func (w *Writer) WriteBlock(ctx context.Context, win raster.Window, a *ndarray.Array) error {
	s := &w.spec
	switch {
	case a == nil || a.Type != s.Type || len(a.Shape) != 3 || len(a.Strides) != 3 || a.Shape[0] != s.Bands ||
		a.Shape[1] != win.Height || a.Shape[2] != win.Width:
		return fmt.Errorf("%s: the array to write is not of type %v and shape (%d, %d, %d)", w.path, s.Type, s.Bands,
			win.Height, win.Width)
	case win.Width < 0 || win.Height < 0 || !s.Grid.Window().Contains(win):
		return fmt.Errorf("%s: window %v is not inside the raster of %d x %d pixels", w.path, win, s.Grid.Width,
			s.Grid.Height)
	case win.Width > 1 && a.Strides[2] != a.Type.Size() || a.Strides[0] < 0 || a.Strides[1] < 0:
		return fmt.Errorf("%s: the rows of the array to write have gaps, or lie backwards", w.path)
	case win.Empty():
		return ctx.Err()
	}
	if err := checkInside(w.path, a); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(ctx); err != nil {
		return err
	}
	if w.sealed || w.whole {
		return fmt.Errorf("%s: no more pixels can be written after overviews and statistics", w.path)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&a.Data[0])
	return w.try("write", func() bool {
		return c.GDALDatasetRasterIOEx(w.h, 1, int32(win.Col), int32(win.Row), int32(win.Width), int32(win.Height),
			unsafe.Pointer(&a.Data[a.Offset]), int32(win.Width), int32(win.Height), gdalType(a.Type),
			int32(s.Bands), nil, int64(a.Type.Size()), int64(a.Strides[1]), int64(a.Strides[0]), nil) == 0
	})
}

func (w *Writer) usable(ctx context.Context) error {
	switch {
	case w.done:
		return fmt.Errorf("%s: %w", w.path, fs.ErrClosed)
	case w.err != nil:
		return w.err
	}
	return ctx.Err()
}

// seal ends the writing of pixels, and copies them to the output's own format.
func (w *Writer) seal(ctx context.Context) error {
	if w.sealed {
		return nil
	}
	w.sealed = true
	if err := w.try("write", func() bool { c.GDALFlushCache(w.h); return true }); err != nil || !w.copies {
		return err
	}
	p := newProgress(ctx)
	defer p.end()
	from := w.h
	err := w.try("write", func() bool {
		// Strict: what the format can't hold is an error instead of converted.
		w.h = c.GDALCreateCopy(c.GDALGetDriverByName(w.driver.Name), w.staged.main(), from, 1, cStrings(w.spec.Options),
			p.function, p.data)
		if w.h != 0 {
			w.err = w.checkTypes()
		}
		return w.h != 0
	})
	if ctx.Err() != nil {
		w.err, err = ctx.Err(), ctx.Err()
	}
	closeDataset(from)
	w.copies = false
	return errors.Join(err, os.RemoveAll(w.staged.scratch()), os.Mkdir(w.staged.scratch(), 0o700))
}

// Finish writes what is left and closes the files, which stay hidden until Close. Nothing can be
// added afterwards. After an error, which may be ctx's, only Discard is useful.
func (w *Writer) Finish(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(ctx); err != nil {
		return err
	}
	return w.finish(ctx)
}

func (w *Writer) finish(ctx context.Context) error {
	if w.whole {
		return nil
	}
	if err := w.seal(ctx); err != nil {
		return err
	}
	h := w.h
	w.h = 0
	if err := w.try("write", func() bool { c.GDALClose(h); return true }); err != nil {
		return err
	}
	w.whole = true
	return w.staged.rename()
}

// Close finishes the output and publishes it with the format's other files, in place of an older
// output. It removes an older output's .aux.xml, .ovr, .msk and other files that GDAL treats as
// parts of it. After an error, which may be ctx's, nothing is published and nothing is left.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	err := w.usable(ctx)
	if w.done {
		w.mu.Unlock()
		return err
	}
	if err == nil {
		err = w.finish(ctx)
	}
	if err == nil {
		err = w.staged.publish(w.spec.NoClobber, w.staged.oldParts(ReadAs(w.driver.Name)))
	}
	w.mu.Unlock()
	return errors.Join(err, w.Discard())
}

// StagingPath returns the output's path until Close, where it can be opened after Finish.
func (w *Writer) StagingPath() string { return w.staged.main() }

// FileNames returns the files and directories that Close publishes, the output itself first, and
// their total size in bytes.
func (w *Writer) FileNames() (names []string, bytes int64, err error) { return w.staged.files() }

// Items returns the metadata of a band, counted from 1, in the output's own format. It ends the
// writing of pixels.
func (w *Writer) Items(ctx context.Context, band int) (m map[string]string, err error) {
	if err := w.checkBand(band); err != nil {
		return nil, err
	}
	err = w.derive(ctx, "read its items", w.attempt, func(*progress) bool {
		m = items(goStrings(c.GDALGetMetadata(hObject(c.GDALGetRasterBand(w.h, int32(band))), "")))
		return true
	})
	return m, err
}

// Discard removes the output unless Close has published it.
func (w *Writer) Discard() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return nil
	}
	w.done = true
	if w.h != 0 {
		closeDataset(w.h)
		w.h = 0
	}
	return w.staged.remove()
}
