package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"leat/apply"
	"leat/apply/outcome"
	"leat/internal/gdal"
	"leat/internal/lazyregexp"
	"leat/internal/regular"
	"leat/internal/storeurl"
	"leat/internal/vectorcopy"
	"leat/raster"
)

// systemName matches a CRS given by its authority and number.
var systemName = lazyregexp.New(`^[A-Za-z]+:[0-9]+$`)

// gridOf is the grid of a raster, or one by numbers: CRS,MINX,MINY,MAXX,MAXY,SIZE[,SIZEY].
func gridOf(ctx context.Context, job *apply.Job, text string) (g raster.Grid, err error) {
	fields := strings.Split(text, ",")
	var v []float64 // from the last one on
	for i := len(fields) - 1; i > 0 && len(v) < 6; i-- {
		x, err := strconv.ParseFloat(strings.TrimSpace(fields[i]), 64)
		if err != nil {
			break
		}
		v = append(v, x)
	}
	_, statErr := os.Stat(text)
	if statErr != nil && systemName.MatchString(text) {
		return g, hintedError{fmt.Errorf("--grid %s: a CRS alone is not a grid: expected CRS,MINX,MINY,MAXX,MAXY,SIZE, or a raster that has the grid", text),
			"a grid by numbers is written as EPSG:32631,500000,5190000,509990,5200000,10"}
	}
	if statErr == nil || len(fields) == 1 || storeurl.Is(text) {
		return gridOfFile(ctx, job, "--grid", text)
	}
	bad := func(format string, args ...any) (raster.Grid, error) {
		return g, fmt.Errorf("--grid %s: "+format, append([]any{text}, args...)...)
	}
	if len(v) < 5 {
		return bad("there is no such file; give a raster that has the grid, or CRS,MINX,MINY,MAXX,MAXY,SIZE such as EPSG:32631,500000,5190000,509990,5200000,10")
	}
	slices.Reverse(v)
	x, y := v[4], v[len(v)-1]
	box := v[:4]
	for _, n := range v {
		if math.IsNaN(n) || math.IsInf(n, 0) {
			return bad("%v is not a number that a grid can have", n)
		}
	}
	switch {
	case !(box[0] < box[2]) || !(box[1] < box[3]):
		return bad("the box is empty: give min x, min y, max x, max y, and then the size of pixels")
	case x <= 0 || y <= 0:
		return bad("the pixel size must be above 0")
	}
	width, height := (box[2]-box[0])/x, (box[3]-box[1])/y
	// As far as decimals can be off: a thousandth of a pixel.
	if math.Abs(width-math.Round(width)) > 1e-3 || math.Abs(height-math.Round(height)) > 1e-3 || width < 0.5 ||
		height < 0.5 {
		return bad("the box is %.7g pixels wide and %.7g high: give one of whole pixels", width, height)
	}
	if width > math.MaxInt32 || height > math.MaxInt32 {
		return bad("the grid would have %.0f x %.0f pixels, more than any raster", width, height)
	}
	g = raster.Grid{Width: int(math.Round(width)), Height: int(math.Round(height)), HasTransform: true,
		Transform: raster.Transform{box[0], x, 0, box[3], 0, -y}}
	name := strings.Join(fields[:len(fields)-len(v)], ",")
	g.CRS, err = systemOf(ctx, job, "--grid", name)
	return g, err
}

// systemOf is the CRS that an option names: AUTHORITY:NUMBER, none, a raster that has it, or a text
// file of WKT such as a .prj.
func systemOf(ctx context.Context, job *apply.Job, option, name string) (raster.CRS, error) {
	if name == "none" {
		return raster.CRS{}, nil
	}
	text := name
	if st, err := os.Stat(name); err == nil {
		if err := regular.Check(name); errors.Is(err, regular.ErrSpecial) {
			return raster.CRS{}, fileError{fmt.Errorf("%s: %s: %w", option, name, regular.ErrSpecial)}
		}
		const most = 64 << 10 // of a description; rasters are mostly larger, and tell by how they begin
		ext := strings.ToLower(filepath.Ext(name))
		if st.Size() > most || ext != ".prj" && ext != ".wkt" && ext != ".txt" {
			g, err := gridOfFile(ctx, job, option, name)
			if err == nil && g.CRS.IsZero() {
				err = fileError{fmt.Errorf("%s: %s names no CRS: give another file, a CRS such as EPSG:32631, or none", option, name)}
			}
			return g.CRS, err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return raster.CRS{}, fileError{fmt.Errorf("%s: %s: %w", option, name, cause(err))}
		}
		text = strings.TrimSpace(string(b))
	}
	crs, err := gdal.ParseCRS(text)
	switch {
	case errors.Is(err, gdal.ErrNotInstalled):
		return crs, fileError{fmt.Errorf("%s: a CRS by its name needs GDAL, which knows what %s is; without it, give a raster that has it: %w", option, shorten(name), err)}
	case err != nil:
		return crs, fmt.Errorf("%s: %s is neither a CRS that GDAL knows, such as EPSG:32631, nor a raster or a file .prj or .wkt that has one: %w", option, shorten(name), err)
	}
	return crs, nil
}

// gridOfFile is the grid of a raster that an option names.
func gridOfFile(ctx context.Context, job *apply.Job, flag, path string) (raster.Grid, error) {
	path, err := localName(path)
	if err != nil {
		return raster.Grid{}, fileError{fmt.Errorf("%s %w", flag, err)}
	}
	src, err := job.Open(ctx, path)
	if err != nil {
		return raster.Grid{}, fileError{fmt.Errorf("%s %w", flag, err)}
	}
	g := src.Info().Grid
	return g, src.Close()
}

// gridOfBox returns a grid that covers a box, with so many pixels that its edges follow their
// curves in another CRS.
func gridOfBox(box [4]float64, crs raster.CRS) raster.Grid {
	const n = 1024
	return raster.Grid{Width: n, Height: n, HasTransform: true, CRS: crs,
		Transform: raster.Transform{box[0], (box[2] - box[0]) / n, 0, box[3], 0, -(box[3] - box[1]) / n}}
}

// localVectors returns the local name of vectors that an option names. It copies those in a store;
// the caller closes the copy.
func localVectors(ctx context.Context, job *apply.Job, option, name string) (*vectorcopy.Copy, string, error) {
	local, err := localName(name)
	if err == nil && storeurl.Is(local) {
		var copied *vectorcopy.Copy
		// The command's store is a *stores.Stores.
		if copied, err = vectorcopy.Make(ctx, job.Store.(vectorcopy.Fetcher), local); err == nil {
			return copied, copied.Path, nil
		}
	}
	if err != nil {
		return nil, local, fileError{fmt.Errorf("%s %w", option, err)}
	}
	return nil, local, nil
}

// extentsOf returns grids that cover what a file of --extent covers: that of a raster, or one for
// each layer of vectors that has features.
func extentsOf(ctx context.Context, job *apply.Job, path string) ([]raster.Grid, error) {
	const option = "--extent"
	g, err := gridOfFile(ctx, job, option, path)
	// A file in a store that is not a raster is taken for vectors.
	vectors := errors.Is(err, outcome.ErrVectors) || storeurl.Is(path) && errors.Is(err, raster.ErrFormat)
	if !vectors {
		return []raster.Grid{g}, err
	}
	bad := func(format string, args ...any) ([]raster.Grid, error) {
		return nil, fileError{fmt.Errorf("%s %s: "+format, append([]any{option, shown(path)}, args...)...)}
	}
	copied, local, err := localVectors(ctx, job, option, path)
	if err != nil {
		return nil, err
	}
	layers, err := gdal.VectorLayers(local, &gdal.Options{Name: storeurl.Redact(path)})
	if copied != nil {
		err = errors.Join(err, copied.Close())
	}
	if err != nil {
		return bad("%w", err)
	}
	var grids []raster.Grid
	for _, l := range layers {
		switch e := l.Extent; {
		case l.Features == 0 || l.Geometry == "None":
		case e == nil:
			return bad("the layer %s does not say what it covers, expected a format that does, such as GPKG", l.Name)
		case !(e[0] < e[2]) || !(e[1] < e[3]):
			return bad("the layer %s covers no area: x %v to %v, y %v to %v", l.Name, e[0], e[2], e[1], e[3])
		default:
			grids = append(grids, gridOfBox(*e, l.CRS))
		}
	}
	if len(grids) == 0 {
		return bad("it has no features, expected some to cover")
	}
	return grids, nil
}
