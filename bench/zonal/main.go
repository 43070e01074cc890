// Package zonal measures leat zonal against rasterstats' algorithm in rasterio and NumPy:
// statistics of many polygons over one raster, in whole runs.
package zonal

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"leat/bench/measured"
	"leat/bench/runner"
	"leat/bench/scene"
	"leat/internal/geotiff"
)

// Part measures leat zonal.
var Part = &runner.Part{Name: "zonal", Summary: "statistics of polygons", Runs: 5, Run: run}

//go:embed peers/zonal.py
var peer []byte

// variant is one way to the same table.
type variant struct {
	name      string
	args      []string
	wall, cpu measured.Times
}

// run measures the mean of polygons of about 100 x 100 pixels.
func run(ctx context.Context, o *runner.Options) (err error) {
	side, across := 10000, 100
	if o.Quick {
		side, across = 1000, 10
	}
	dir, err := os.MkdirTemp(o.Dir, "leat-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	leat, err := scene.Find(ctx, o.Leat, o.Data, dir, o.Say)
	if err != nil {
		return err
	}
	raster, _, err := leat.Bands(ctx, side)
	if err != nil {
		return err
	}
	zones, script := filepath.Join(dir, "zones.geojson"), filepath.Join(dir, "zonal.py")
	if err := errors.Join(writeZones(zones, raster, side, across), os.WriteFile(script, peer, 0o600)); err != nil {
		return err
	}
	python, err := findPython(ctx)
	if err != nil {
		return err
	}
	out := filepath.Join(dir, "out.csv")
	leatArgs := func(rule, stats string) []string {
		return []string{leat.Program, "zonal", "-q", "-i", "v=" + raster, "-z", zones, "--by", "id", "--weights", rule,
			"--stat", stats, "-o", out}
	}
	variants := []*variant{
		{name: "rasterio and NumPy, a window per polygon, two processes", args: []string{python, script, "windows", raster, zones, out}},
		{name: "rasterio and NumPy, the raster in memory, two processes", args: []string{python, script, "memory", raster, zones, out}},
		{name: "leat, mean by centre", args: leatArgs("centre", "mean")},
		{name: "leat, mean by coverage", args: leatArgs("coverage", "mean")},
		{name: "leat, mean, std and median by centre", args: leatArgs("centre", "mean,std,median")},
	}
	var want map[string]float64
	for round := range o.Runs + 1 {
		for i := range variants {
			v := variants[(i+round)%len(variants)]
			begin := time.Now()
			cmd := exec.CommandContext(ctx, v.args[0], v.args[1:]...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%s: %w\n%s", strings.Join(v.args, " "), err, scene.Tail(stderr.Bytes()))
			}
			wall := time.Since(begin)
			cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			means, err := readMeans(out)
			if err != nil {
				return err
			}
			if want == nil {
				want = means
			}
			if !strings.Contains(v.name, "coverage") {
				if err := compare(means, want, across*across); err != nil {
					return fmt.Errorf("%s: %w", v.name, err)
				}
			}
			o.Say("  %d  %-60s %.3f s wall  %.3f s processors", round, v.name, wall.Seconds(), cpu.Seconds())
			if round > 0 {
				v.wall, v.cpu = append(v.wall, wall), append(v.cpu, cpu)
			}
			if err := os.Remove(out); err != nil {
				return err
			}
		}
	}
	best := variants[0]
	if variants[1].wall.Median() < best.wall.Median() {
		best = variants[1]
	}
	fmt.Fprintf(o.Out, "%s\n\nMedians; in brackets the lowest and highest. Variants run in turn, round by round.\n\n",
		measured.Machine(o.Command, scene.Version(ctx)))
	if o.Quick {
		fmt.Fprint(o.Out, runner.QuickNote)
	}
	fmt.Fprintf(o.Out, "%d polygons over %d x %d pixels of uint16, whole runs from files to a CSV file.\n\n", across*across, side, side)
	table := [][]string{{"", "wall", "÷ the faster peer", "processors"}}
	for _, v := range variants {
		table = append(table, []string{v.name, v.wall.String(), v.wall.Ratio(best.wall), v.cpu.String()})
	}
	measured.Table(o.Out, table)
	ratio := variants[2].wall.Median().Seconds() / best.wall.Median().Seconds()
	verdict := "missed"
	if ratio <= 0.5 {
		verdict = "met"
	}
	fmt.Fprintln(o.Out)
	measured.Table(o.Out, [][]string{{"target", "measured", ""},
		{"zonal mean by centre <= 0.5 of the faster peer", fmt.Sprintf("%.2f", ratio), verdict}})
	return nil
}

// findPython returns an interpreter that has rasterio.
func findPython(ctx context.Context) (string, error) {
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(ctx, p, "-c", "import numpy, rasterio.features").Run() == nil {
			return p, nil
		}
	}
	return "", errors.New("no python3 that imports numpy and rasterio (Debian: python3-rasterio)")
}

// writeZones writes across x across polygons of 16 vertices as GeoJSON, each around one of as many
// squares of the raster.
func writeZones(path, raster string, side, across int) error {
	src, err := geotiff.Open(raster)
	if err != nil {
		return err
	}
	defer src.Close()
	g := src.Info().Grid
	minX, minY, maxX, maxY := g.Bounds()
	type object = map[string]any
	rng := rand.New(rand.NewPCG(1, 1))
	size := float64(side) / float64(across)
	var features []object
	for i := range across * across {
		x, y := (float64(i%across)+0.5)*size, (float64(i/across)+0.5)*size
		const vertices = 16
		var ring [][2]float64
		for k := range vertices {
			r, a := size*(0.35+0.3*rng.Float64()), 2*math.Pi*float64(k)/vertices
			col := min(max(x+r*math.Cos(a), 0), float64(side))
			row := min(max(y+r*math.Sin(a), 0), float64(side))
			ring = append(ring, [2]float64{minX + col/float64(side)*(maxX-minX), maxY - row/float64(side)*(maxY-minY)})
		}
		ring = append(ring, ring[0])
		features = append(features, object{"type": "Feature", "properties": object{"id": i},
			"geometry": object{"type": "Polygon", "coordinates": [][][2]float64{ring}}})
	}
	code := "urn:ogc:def:crs:" + strings.Replace(g.CRS.Code, ":", "::", 1)
	b, err := json.Marshal(object{"type": "FeatureCollection", "features": features,
		"crs": object{"type": "name", "properties": object{"name": code}}})
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// readMeans returns the column mean by the column id.
func readMeans(path string) (map[string]float64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	means := map[string]float64{}
	column := -1
	for i, row := range rows {
		if i == 0 {
			for j, name := range row {
				if name == "mean" {
					column = j
				}
			}
			if column < 1 {
				return nil, fmt.Errorf("%s: columns %q, expected id and mean", path, row)
			}
			continue
		}
		if means[row[0]], err = strconv.ParseFloat(row[column], 64); err != nil {
			return nil, err
		}
	}
	return means, nil
}

// compare returns an error where means differ by more than rounding.
func compare(got, want map[string]float64, n int) error {
	if len(got) != n || len(want) != n {
		return fmt.Errorf("%d and %d polygons, expected %d", len(got), len(want), n)
	}
	for id, w := range want {
		if g, ok := got[id]; !ok || math.Abs(g-w) > 1e-9*math.Abs(w) {
			return fmt.Errorf("polygon %s has the mean %v, the first variant has %v", id, g, w)
		}
	}
	return nil
}
