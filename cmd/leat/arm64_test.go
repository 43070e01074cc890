package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// buildArm64 builds leat for Linux on arm64, with or without GDAL.
func buildArm64(t *testing.T, tags string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "leat-arm64")
	command(t, "", []string{"GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false"},
		"go", "build", "-tags="+tags, "-o", path, ".")
	return path
}

// mayFuse are packages whose numbers reach no raster: estimates of time and memory, charts, and
// footprints in degrees.
var mayFuse = regexp.MustCompile(`^leat/(apply/internal/plan|internal/(report|stac)|objstore|stage|timing)\.`)

// TestNoFusedMultiplyAdd looks for instructions that round x*y + z once. The compiler emits them
// for a product that no conversion rounds, on arm64 but not on amd64, so that results differ.
func TestNoFusedMultiplyAdd(t *testing.T) {
	skipWithoutDist(t, "links leat for arm64")
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out := command(t, "", nil, "go", "tool", "objdump", "-s", `^leat/|^main\.`, buildArm64(t, "disable_grpc_modules"))
	fused := regexp.MustCompile(`\bFN?M(ADD|SUB)[SD]\b`)
	function := ""
	explicit := 0
	sources := map[string][]string{}
	header := regexp.MustCompile(`^TEXT (\S+?)\(SB\)`)
	for scan := bufio.NewScanner(strings.NewReader(out)); scan.Scan(); {
		line := scan.Text()
		if m := header.FindStringSubmatch(line); m != nil {
			function = m[1]
			continue
		}
		if !fused.MatchString(line) || mayFuse.MatchString(function) {
			continue
		}
		// The line is of the file of the innermost function, which may have been inlined.
		place := strings.Fields(line)[0]
		if calledFMA(t, root, place, sources) {
			explicit++
			continue
		}
		t.Errorf("%s in %s: a product in a sum is not rounded; write float64(x*y) + z", place, function)
	}
	if explicit == 0 {
		t.Error("not even math.FMA was found")
	}
}

// calledFMA reports whether the source at file.go:line calls math.FMA. Only the last element of the
// file's path is known.
func calledFMA(t *testing.T, root, place string, sources map[string][]string) bool {
	t.Helper()
	name, number, _ := strings.Cut(place, ":")
	for _, dir := range []string{"internal/expr", "internal/elementary"} {
		path := filepath.Join(root, dir, name)
		if _, ok := sources[path]; !ok {
			text, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			sources[path] = strings.Split(string(text), "\n")
		}
		n := 0
		if _, err := fmt.Sscan(number, &n); err != nil {
			t.Fatalf("%s: %v", place, err)
		}
		if n >= 1 && n <= len(sources[path]) && strings.Contains(sources[path][n-1], "math.FMA(") {
			return true
		}
	}
	return false
}

// functionJobs use each function of the language, in float32 and in float64.
var functionJobs = []string{
	"sin(a)+cos(a*3)+tan(a/7)", "asin(a%1)+acos(a/3%1)+atan(a-300)", "sinh(a/99)+cosh(a/77)+tanh(a/500)",
	"exp(a/30)", "expm1(a/999)", "log(a)", "log10(a)", "log2(a)", "log1p(a/1000)", "a**1.7+a**3+a**-2", "sqrt(a)",
	"atan2(a-500,a/3)", "hypot(a,a/3)", "(a*1.1+a*2.3)*(a-0.7)/(a+3)-a*a", "mean([a,a*3,7])+std([a,a/3,9.5])",
	"median([a,a*1.1,a/3,5])", "percentile([a,a*1.1,a/3],90)+var([a,a/3,9.5])",
	"trend([a,a*1.1,a/3])+intercept([a,a/3,9.5])+r2([a,a*1.1,5])", "x*a+y/3+col*row",
}

// arm64Jobs are the golden jobs that the emulator runs: it takes seconds for each.
var arm64Jobs = []string{"ndvi", "scaled", "list", "lzw", "predictor 3", "cog", "mode overviews", "preview"}

// TestArm64WritesSameBytes runs leat for arm64 by an emulator and compares its outputs with the
// recorded hashes, and with those of this machine for each function of the language.
func TestArm64WritesSameBytes(t *testing.T) {
	skipWithoutDist(t, "links leat for arm64 and emulates it")
	var emulator string
	for _, name := range []string{"qemu-aarch64-static", "qemu-aarch64"} {
		if path, err := exec.LookPath(name); err == nil {
			emulator = path
			break
		}
	}
	if emulator == "" || runtime.GOOS != "linux" {
		t.Skip("qemu-user-static is not installed")
	}
	t.Parallel()
	program := buildArm64(t, "disable_grpc_modules,nogdal")
	arm := func(dir string, args ...string) string {
		t.Helper()
		return command(t, dir, []string{"LEAT_CACHE_DIR=" + filepath.Join(dir, ".cache")}, emulator,
			append([]string{program}, args...)...)
	}
	if out := arm(t.TempDir(), "version"); !strings.Contains(out, "linux/arm64") {
		t.Errorf("leat version prints %s", out)
	}
	inputs := t.TempDir()
	writeGoldenInputs(t, inputs)
	want := readGoldenHashes(t)
	for _, job := range goldenJobs {
		if !slices.Contains(arm64Jobs, job.name) {
			continue
		}
		dir := t.TempDir()
		arm(dir, append(goldenArgs(job.args, inputs, nil), "--quiet")...)
		if err := os.RemoveAll(filepath.Join(dir, ".cache")); err != nil {
			t.Fatal(err)
		}
		if got := hashFiles(t, dir); got != want[job.name] {
			t.Errorf("%s: sha256 %s on arm64, recorded %s", job.name, got, want[job.name])
		}
	}

	compareArm64(t, arm, inputs)

	// The demo's scene and its picture.
	mine, other := t.TempDir(), t.TempDir()
	arm(other, "demo", "--size", "300", "demo")
	leat(t, 0, mine, "demo", "--size", "300", "demo")
	for _, name := range []string{"B04.tif", "B08.tif", "ndvi.tif", "ndvi.png"} {
		compareFiles(t, filepath.Join(mine, "demo", name), filepath.Join(other, "demo", name))
	}
}

// compareArm64 computes functionJobs on both processors.
func compareArm64(t *testing.T, arm func(dir string, args ...string) string, inputs string) {
	t.Helper()
	args := []string{"apply", "--quiet", "--overviews", "none", "-i", "a=" + filepath.Join(inputs, "dem.tif")}
	word := regexp.MustCompile(`\ba\b`)
	var names []string
	for i, e := range functionJobs {
		for class, text := range map[string]string{"single": e, "double": word.ReplaceAllString(e, "float64(a)")} {
			name := fmt.Sprintf("%s%d", class, i)
			names = append(names, name)
			args = append(args, "-o", name+"="+name+".tif", "-e", name+"="+text)
		}
	}
	mine, other := t.TempDir(), t.TempDir()
	leat(t, 0, mine, args...)
	arm(other, args...)
	for _, name := range names {
		compareFiles(t, filepath.Join(mine, name+".tif"), filepath.Join(other, name+".tif"))
	}
}

func compareFiles(t *testing.T, mine, other string) {
	t.Helper()
	a, err := os.ReadFile(mine)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("%s: the bytes on arm64 differ (%d and %d bytes)", filepath.Base(mine), len(a), len(b))
	}
}
