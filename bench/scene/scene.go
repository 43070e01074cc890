// Package scene builds leat and makes bands of its demo scene, for benchmarks that run the real
// program.
package scene

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Leat is the program that is measured, with the directory where its inputs are kept.
type Leat struct {
	Program string
	Data    string
	// Temp is a directory for all that is not kept.
	Temp string
	// Say prints progress.
	Say func(format string, args ...any)
}

// Root returns the directory of leat's sources.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "leat").Output()
	if err != nil {
		return "", fmt.Errorf("finding the sources (run it from within the repository): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Find builds leat in temp as make build does, unless program names one, and makes the directory
// data, by default bench/data of the sources. If temp is empty, it makes a directory in data.
func Find(ctx context.Context, program, data, temp string, say func(format string, args ...any)) (_ *Leat, err error) {
	l := &Leat{Temp: temp, Say: say}
	root := ""
	if data == "" || program == "" {
		if root, err = Root(ctx); err != nil {
			return nil, err
		}
	}
	if data == "" {
		data = filepath.Join(root, "bench", "data")
	}
	if l.Data, err = filepath.Abs(data); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(l.Data, 0o777); err != nil {
		return nil, err
	}
	if l.Temp == "" {
		if l.Temp, err = os.MkdirTemp(l.Data, "out-"); err != nil {
			return nil, err
		}
	}
	if program != "" {
		l.Program, err = filepath.Abs(program)
		return l, err
	}
	l.Program = filepath.Join(l.Temp, "leat")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "disable_grpc_modules", "-trimpath", "-ldflags", "-s -w",
		"-o", l.Program, "./cmd/leat")
	build.Dir, build.Stderr, build.Env = root, os.Stderr, append(os.Environ(), "CGO_ENABLED=0")
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("building leat: %w", err)
	}
	return l, nil
}

// Version returns the revision of the sources.
func Version(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return ""
	}
	return "leat at " + strings.TrimSpace(string(out))
}

// Bands are the files of the red and near infrared band of leat demo's scene, side x side pixels of
// uint16 without nodata, deflate, predictor 2, in tiles of 512, or as further options of leat apply
// say. Missing ones are made.
func (l *Leat) Bands(ctx context.Context, side int, more ...string) (red, nir string, err error) {
	suffix := strings.NewReplacer("--", "-", ",", "-", "=", "").Replace(strings.Join(more, ""))
	file := func(band string) string {
		return filepath.Join(l.Data, fmt.Sprintf("plain-%s-%d%s.tif", band, side, suffix))
	}
	red, nir = file("red"), file("nir")
	_, err1 := os.Stat(red)
	_, err2 := os.Stat(nir)
	if errors.Join(err1, err2) == nil {
		return red, nir, nil
	}
	l.Say("making a scene of %d x %d pixels", side, side)
	scene, err := os.MkdirTemp(l.Temp, "scene-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(scene)
	if err := l.Run(ctx, "demo", "--size", strconv.Itoa(side), scene); err != nil {
		return "", "", err
	}
	for band, from := range map[string]string{"red": "B04.tif", "nir": "B08.tif"} {
		args := []string{"apply", "-q", "-i", "a=" + filepath.Join(scene, from), "-e", "a", "-o", "out=" + file(band),
			"--no-mask", "--nodata", "none",
			"--overviews", "none", "--no-stats"}
		if err := l.Run(ctx, append(args, more...)...); err != nil {
			return "", "", err
		}
	}
	return red, nir, nil
}

// Run runs leat where only errors are of interest.
func (l *Leat) Run(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, l.Program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("leat %s: %w\n%s", strings.Join(args, " "), err, Tail(out))
	}
	return nil
}

// Tail is the end of a long text.
func Tail(text []byte) string {
	if n := len(text) - 2000; n > 0 {
		text = append([]byte("..."), text[n:]...)
	}
	return strings.TrimSpace(string(text))
}
