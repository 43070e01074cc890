package demo

import (
	"context"
	"path/filepath"

	"leat/apply"
	"leat/ndarray"
	"leat/raster"
)

// The names of the scene's files.
const (
	redName     = "B04.tif"
	nirName     = "B08.tif"
	classesName = "SCL.tif"
)

// Grid returns the grid of Sentinel-2 tile 31TCJ: UTM zone 31N, 109.8 km a side, pixels of 20 m at
// BaseSize.
func Grid(size int) raster.Grid {
	pixel := 20.0 * BaseSize / float64(size)
	return raster.Grid{
		Width: size, Height: size, HasTransform: true,
		Transform: raster.Transform{300000, pixel, 0, 4900020, 0, -pixel},
		CRS: raster.CRS{Code: "EPSG:32631", Name: "WGS 84 / UTM zone 31N", Keys: &raster.GeoKeys{
			// Projected, pixels are areas, citation, EPSG code, degrees, metres.
			Directory: []uint16{1, 1, 0, 6, 1024, 0, 1, 1, 1025, 0, 1, 1, 1026, 34737, 22, 0, 2054, 0, 1, 9102, 3072, 0,
				1, 32631, 3076, 0, 1, 9001},
			ASCII: "WGS 84 / UTM zone 31N|",
		}},
	}
}

// Scene holds the paths of a scene's files.
type Scene struct{ Red, NIR, Classes string }

// WriteScene writes a scene of size x size pixels into dir as tiled GeoTIFFs without overviews, as
// a provider would: two bands of uint16 and the classes of uint8. Scenes of other dates, counted
// from 0, have other clouds and harvested fields. version is the program's; show, if not nil, may
// show the run's status while it goes. Files of the same names are replaced.
func WriteScene(ctx context.Context, dir string, size, date int, version string, show func(*apply.Running)) (*Scene, error) {
	s := &Scene{Red: filepath.Join(dir, redName), NIR: filepath.Join(dir, nirName),
		Classes: filepath.Join(dir, classesName)}
	grid := Grid(size)
	band := func(path, name, what string) apply.Output {
		return apply.Output{
			Path: path, Type: ndarray.Uint16, Bands: 1, Nodata: "0", NoOverviews: true,
			LayerNames: []string{name},
			Metadata: map[string]string{"TIFFTAG_IMAGEDESCRIPTION": "Made-up Sentinel-2-like scene, " + what +
				": reflectance x 10000 + 1000"},
			BeforeClose: func(info *raster.Info) error {
				info.Bands[0].Scale, info.Bands[0].Offset = 1e-4, -offset*1e-4
				return nil
			},
		}
	}
	classes := apply.Output{
		Path: s.Classes, Type: ndarray.Uint8, Bands: 1, Nodata: "0", NoOverviews: true, LayerNames: []string{"SCL"},
		Thematic: true,
		Metadata: map[string]string{"TIFFTAG_IMAGEDESCRIPTION": "Made-up Sentinel-2-like scene: classes of its pixels"},
	}
	run, err := apply.Start(ctx, apply.Job{
		Outputs: map[string]apply.Output{"red": band(s.Red, "B04", "red"), "nir": band(s.NIR, "B08", "near infrared"),
			"classes": classes},
		Controls: apply.Controls{Grid: &grid},
		Version:  version,
		Func: func(_ context.Context, b *apply.Block) error {
			w := b.Window
			fillWindow(size, date, w.Col, w.Row, w.Width, w.Height, apply.Out[uint16](b, "red"),
				apply.Out[uint16](b, "nir"), apply.Out[uint8](b, "classes"))
			return nil
		},
	})
	if err != nil {
		return s, err
	}
	if show != nil {
		show(run)
	}
	_, err = run.Wait()
	return s, err
}
