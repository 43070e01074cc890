package gdal

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"leat/bench/measured"
	"leat/bench/scene"
	"leat/internal/geotiff"
)

// ndviText is the main job's expression.
const ndviText = "(nir - red) / (nir + red)"

// warp compares leat apply that warps one of two inputs on read with gdalwarp and leat apply after
// it.
func (b *bench) warp() error {
	red, nir, err := b.leat.Bands(b.ctx, b.side)
	if err != nil {
		return err
	}
	// The same band as another source would have it: in web Mercator.
	other := filepath.Join(b.dir, "other.tif")
	if err := b.command("gdalwarp", "-q", "-t_srs", "EPSG:3857", "-r", "near", "-co", "TILED=YES", "-co",
		"BLOCKXSIZE=512", "-co", "BLOCKYSIZE=512", "-co", "COMPRESS=DEFLATE", "-co", "PREDICTOR=2", nir,
		other); err != nil {
		return err
	}
	extent, err := b.extent(red)
	if err != nil {
		return err
	}
	aligned, out := filepath.Join(b.dir, "aligned.tif"), filepath.Join(b.dir, "out.tif")
	bare := []string{"--overviews", "none", "--no-stats"}
	apply := func(nir string, more ...string) []string {
		return append(append([]string{b.leat.Program, "apply", "-q", "-i", "red=" + red, "-i", "nir=" + nir, "-o",
			"out=" + out, "-e", ndviText, "--footprint", "reference", "--reference", "red"}, bare...), more...)
	}
	table := [][]string{{"", "wall", "÷ gdalwarp, then leat", "processors", "÷ gdalwarp, then leat"}}
	methods := []string{"near", "bilinear", "cubic"}
	if b.Quick {
		methods = methods[:1]
	}
	for _, method := range methods {
		warp := append([]string{"gdalwarp", "-q", "-overwrite", "-et", "0", "-r", method, "-multi", "-wo",
			"NUM_THREADS=ALL_CPUS", "-wm", "256", "-co", "TILED=YES", "-co", "BLOCKXSIZE=512", "-co", "BLOCKYSIZE=512"},
			extent...)
		variants := []*variant{
			{name: "gdalwarp -et 0, then leat", steps: [][]string{append(warp, other, aligned), apply(aligned)}},
			{name: "leat, which warps on read", steps: [][]string{apply(other, "--resample", "nir="+method)}},
		}
		var first [sha256.Size]byte
		for round := range b.Runs + 1 {
			for i := range variants {
				v := variants[(i+round)%len(variants)]
				wall, cpu, err := b.steps(v.steps)
				if err != nil {
					return err
				}
				data, err := os.ReadFile(out)
				if err != nil {
					return err
				}
				if sum := sha256.Sum256(data); round == 0 && i == 0 {
					first = sum
				} else if sum != first {
					v.differs = true
				}
				b.Say("  %d  %-9s %-30s %.3f s wall  %.3f s processors", round, method, v.name, wall.Seconds(),
					cpu.Seconds())
				if round > 0 {
					v.wall, v.cpu = append(v.wall, wall), append(v.cpu, cpu)
				}
				if err := errors.Join(os.Remove(out), removeIfThere(aligned)); err != nil {
					return err
				}
			}
		}
		base := variants[0]
		for _, v := range variants {
			name := method + ": " + v.name
			if v.differs {
				name += " (another output)"
			}
			table = append(table, []string{name, v.wall.String(), v.wall.Ratio(base.wall), v.cpu.String(),
				v.cpu.Ratio(base.cpu)})
		}
		ratio := variants[1].wall.Median().Seconds() / base.wall.Median().Seconds()
		b.target("NDVI, one input warped on read ("+method+") <= 1.1 x gdalwarp and leat", fmt.Sprintf("%.2f", ratio),
			ratio <= 1.1)
	}
	fmt.Fprintf(b.Out, "NDVI (`%s`) of two uint16 bands to float32, %d x %d pixels without statistics and overviews; the near infrared one is in web Mercator. gdalwarp has `-multi -wo NUM_THREADS=ALL_CPUS -wm 256` and writes uncompressed tiles.\n\n", ndviText, b.side, b.side)
	measured.Table(b.Out, table)
	fmt.Fprintln(b.Out)
	return nil
}

// variant is one way to the same output.
type variant struct {
	name      string
	steps     [][]string
	wall, cpu measured.Times
	differs   bool
}

// steps runs commands one after the other.
func (b *bench) steps(steps [][]string) (wall, cpu time.Duration, err error) {
	begin := time.Now()
	for _, s := range steps {
		cmd := exec.CommandContext(b.ctx, s[0], s[1:]...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			return 0, 0, fmt.Errorf("%s: %w\n%s", strings.Join(s, " "), err, scene.Tail(stderr.Bytes()))
		}
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return time.Since(begin), cpu, nil
}

func (b *bench) command(args ...string) error {
	_, _, err := b.steps([][]string{args})
	return err
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// extent are gdalwarp's options for the grid of a raster.
func (b *bench) extent(path string) ([]string, error) {
	src, err := geotiff.Open(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	g := src.Info().Grid
	minX, minY, maxX, maxY := g.Bounds()
	args := []string{"-t_srs", g.CRS.Code, "-te"}
	for _, v := range []float64{minX, minY, maxX, maxY} {
		args = append(args, fmt.Sprintf("%.17g", v))
	}
	return append(args, "-ts", fmt.Sprint(g.Width), fmt.Sprint(g.Height)), nil
}
