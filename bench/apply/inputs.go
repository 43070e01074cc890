package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// inputs makes the rasters that are measured on, and keeps them.
type inputs struct {
	dir    string
	leat   string
	peers  string
	python string
	say    func(format string, args ...any)
}

// bands are the red and near infrared band of the scene, size x size pixels of uint16 without
// nodata, tiled 512, deflate, predictor 2.
func (in *inputs) bands(ctx context.Context, size int) (red, nir string, err error) {
	red, nir = in.path("red-%d.tif", size), in.path("nir-%d.tif", size)
	if exists(red) && exists(nir) {
		return red, nir, nil
	}
	in.say("making a scene of %d x %d pixels", size, size)
	scene, err := os.MkdirTemp(in.dir, "scene-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(scene)
	if err := command(ctx, in.leat, "demo", "--size", strconv.Itoa(size), scene); err != nil {
		return "", "", err
	}
	if err := in.make(ctx, "bands", filepath.Join(scene, "B04.tif"), red); err != nil {
		return "", "", err
	}
	return red, nir, in.make(ctx, "bands", filepath.Join(scene, "B08.tif"), nir)
}

// derived is a file that make.py makes of another.
func (in *inputs) derived(ctx context.Context, kind, from, name string, args ...string) (string, error) {
	path := in.path("%s", name)
	if exists(path) {
		return path, nil
	}
	in.say("making %s", name)
	return path, in.make(ctx, kind, from, path, args...)
}

// dates returns the names of n files of size x size pixels, as of n dates. make.py makes missing
// ones of a kind, "dates" or "clouds", from another file.
func (in *inputs) dates(ctx context.Context, kind, from, name string, n, size int) ([]string, error) {
	var paths []string
	missing := false
	for i := range n {
		p := in.path("%s-%d-%d.tif", name, size, i)
		paths = append(paths, p)
		missing = missing || !exists(p)
	}
	if !missing {
		return paths, nil
	}
	in.say("making %d files %s of %d x %d pixels", n, name, size, size)
	return paths, in.make(ctx, kind, from, in.path("%s-%d-%%d.tif", name, size), strconv.Itoa(n), strconv.Itoa(size))
}

func (in *inputs) path(format string, args ...any) string {
	return filepath.Join(in.dir, fmt.Sprintf(format, args...))
}

func (in *inputs) make(ctx context.Context, kind, from, to string, args ...string) error {
	if in.python == "" {
		return errors.New("inputs are missing, and making them needs NumPy and rasterio: install python3-numpy and python3-rasterio")
	}
	return command(ctx, in.python, append([]string{filepath.Join(in.peers, "make.py"), kind, from, to}, args...)...)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// command runs a program of which only errors are of interest.
func command(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", filepath.Base(name), args, err, tail(string(out)))
	}
	return nil
}
