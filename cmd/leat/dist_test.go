package main

import (
	"bytes"
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sourceTree copies what git tracks or would track into a directory and returns it.
func sourceTree(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Skipf("no repository: %v", err)
	}
	dir := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		copyFile(t, filepath.Join(root, name), filepath.Join(dir, name))
	}
	return dir
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if os.IsNotExist(err) {
		return // removed, and not committed yet
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, info.Mode().Perm()); err != nil {
		t.Fatal(err)
	}
}

// command runs a program in a directory and returns its output.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// skipWithoutDist skips tests that compile much, which make test-all runs.
func skipWithoutDist(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("LEAT_TEST_DIST") == "" {
		t.Skip("LEAT_TEST_DIST is not set (make test-all sets it): " + why)
	}
}

// TestDistIsReproducible builds the archives and the Debian package of this machine's
// architecture in two directories.
func TestDistIsReproducible(t *testing.T) {
	skipWithoutDist(t, "links leat four times")
	if runtime.GOOS != "linux" {
		t.Skip("the archives are made on Linux")
	}
	t.Parallel()
	deb, files := "yes", 3
	probe := exec.Command("go", "build", "-o", filepath.Join(t.TempDir(), "nfpm"), "github.com/goreleaser/nfpm/v2/cmd/nfpm")
	probe.Dir = "../../tools"
	if out, err := probe.CombinedOutput(); err != nil {
		deb, files = "no", 2
		t.Logf("the Debian package is left out, nfpm can't be built: %s", out)
	}
	var sums []string
	var dir string
	for range 2 {
		dir = sourceTree(t)
		env := []string{"ARCHES=" + runtime.GOARCH, "DEB=" + deb, "COMMIT=test", "SOURCE_DATE_EPOCH=1700000000"}
		sums = append(sums, command(t, dir, env, "scripts/dist"))
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") != files {
		t.Errorf("%s\nin another directory:\n%s", sums[0], sums[1])
	}
	number := strings.TrimSpace(versionFile)
	for _, name := range []string{"", "-static"} {
		base := "leat-" + number + "-linux-" + runtime.GOARCH + name
		command(t, dir, nil, "tar", "-xzf", "dist/"+base+".tar.gz")
		checkArchive(t, filepath.Join(dir, base), number, name == "-static")
	}
}

// checkArchive checks what an archive has in it.
func checkArchive(t *testing.T, dir, number string, static bool) {
	t.Helper()
	program := filepath.Join(dir, "bin", "leat")
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	interpreter := false
	for _, p := range f.Progs {
		interpreter = interpreter || p.Type == elf.PT_INTERP
	}
	if interpreter == static {
		t.Errorf("%s: has an interpreter: %t", program, interpreter)
	}
	if out := command(t, dir, nil, program, "version"); !strings.HasPrefix(out, "leat "+number+"+test\n") ||
		strings.Contains(out, "built without GDAL") != static {
		t.Errorf("leat version prints %s", out)
	}
	for _, name := range []string{"share/man/man1/leat.1.gz", "share/man/man1/leat-apply.1.gz",
		"share/bash-completion/completions/leat", "share/zsh/site-functions/_leat",
		"share/fish/vendor_completions.d/leat.fish", "share/doc/leat/LICENSE", "share/doc/leat/THIRD-PARTY-LICENSES"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Size() < 100 {
			t.Errorf("%s: %v", name, err)
		}
	}
	licenses, err := os.ReadFile(filepath.Join(dir, "share/doc/leat/THIRD-PARTY-LICENSES"))
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"Go go1.", "github.com/spf13/cobra ", "github.com/klauspost/compress ", "gocloud.dev "} {
		if !bytes.Contains(licenses, []byte("== "+module)) {
			t.Errorf("no licence of %s", module)
		}
	}
	if static {
		c := exec.Command(program, "info", "--formats")
		if out, err := c.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("built without GDAL")) {
			t.Errorf("leat info --formats: %v\n%s", err, out)
		}
	}
}

// TestInstall runs make install and make uninstall in a directory of their own.
func TestInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: links leat")
	}
	t.Parallel()
	dir, root := sourceTree(t), t.TempDir()
	args := []string{"--no-print-directory", "DESTDIR=" + root, "PREFIX=/opt/leat", "COMMIT=test"}
	command(t, dir, nil, "make", append(args, "install")...)
	out := command(t, dir, []string{"PATH=" + filepath.Join(root, "opt/leat/bin")},
		filepath.Join(root, "opt/leat/bin/leat"), "--version")
	if want := "leat version " + strings.TrimSpace(versionFile) + "+test\n"; out != want {
		t.Errorf("leat --version prints %q, expected %q", out, want)
	}
	// Without Go and with nothing changed, as by sudo.
	command(t, dir, nil, "make", append(args, "GO=false", "install")...)
	command(t, dir, nil, "make", append(args, "GO=false", "uninstall")...)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ownModule is a program in another module.
const ownModule = `package main

import (
	"context"
	"log"

	"leat/apply"
)

func main() {
	_, err := apply.Run(context.Background(), apply.Job{
		Inputs:  map[string]apply.Input{"a": apply.File("a.tif")},
		Outputs: map[string]apply.Output{"double": {Path: "double.tif"}},
		Func: func(_ context.Context, b *apply.Block) error {
			in, out := apply.As[float32](b, "a"), apply.Out[float32](b, "double")
			for i := range in {
				out[i] = 2 * in[i]
			}
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}
`

// TestUseFromAnotherModule does what README says, without the network.
func TestUseFromAnotherModule(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: compiles apply")
	}
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "```\ngo mod edit -require=leat@")
	commands, _, ended := strings.Cut("go mod edit -require=leat@"+rest, "\n```\n")
	if !found || !ended || !strings.Contains(commands, "/path/to/leat") {
		t.Fatal("README does not say how to use the packages")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(ownModule), 0o666); err != nil {
		t.Fatal(err)
	}
	// With the flags of these tests and a workspace, all is compiled already. README has no
	// workspace: by go.mod alone, the build has the same packages of the same versions.
	offline := []string{"GOPROXY=off", "GOSUMDB=off",
		"GOFLAGS=" + os.Getenv("GOFLAGS") + " -trimpath -buildvcs=false -tags=disable_grpc_modules"}
	command(t, dir, offline, "go", "mod", "init", "example.org/mine")
	command(t, dir, offline, "sh", "-euc", strings.ReplaceAll(commands, "/path/to/leat", root))
	packages := func() string {
		t.Helper()
		return command(t, dir, offline, "go", "list", "-deps", "-f",
			`{{.ImportPath}} {{with .Module}}{{if ne .Path "leat"}}{{.Version}}{{end}}{{end}}`, ".")
	}
	alone := packages()
	command(t, dir, offline, "go", "work", "init", ".", root)
	if d := cmp.Diff(alone, packages()); d != "" || !strings.Contains(alone, "\nleat/apply \n") {
		t.Errorf("without and with a workspace: %s", d)
	}
	command(t, dir, offline, "go", "build", "-o", "mine", ".")
	command(t, dir, nil, "leat", "demo", "--size", "128", "scene")
	if err := os.Rename(filepath.Join(dir, "scene", "B04.tif"), filepath.Join(dir, "a.tif")); err != nil {
		t.Fatal(err)
	}
	command(t, dir, nil, filepath.Join(dir, "mine"))
	in, _ := pixels(t, filepath.Join(dir, "a.tif"))
	out, _ := pixels(t, filepath.Join(dir, "double.tif"))
	for i, v := range in {
		if v *= 2; !same(out[i], v) {
			t.Fatalf("pixel %d is %v, expected %v", i, out[i], v)
		}
	}
}

// TestSetModulePath renames the module in a copy: each import of each package and test must be
// found under the new path.
func TestSetModulePath(t *testing.T) {
	skipWithoutDist(t, "looks at the imports of all packages twice")
	t.Parallel()
	dir := sourceTree(t)
	if out, err := exec.Command(filepath.Join(dir, "scripts/set-module-path"), "a b").CombinedOutput(); err == nil {
		t.Errorf("%q was taken for a path: %s", "a b", out)
	}
	const path = "example.org/team/leat"
	command(t, dir, nil, "scripts/set-module-path", path)
	for _, module := range []string{"", "bench"} {
		list := command(t, filepath.Join(dir, module), nil, "go", "list", "-deps", "-test", "./...")
		if !strings.Contains(list, path+"/apply\n") || strings.Contains(list, "\nleat/") {
			t.Errorf("%s: imports of the old path are left, or none of the new", module)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "README.md")); err != nil ||
		!strings.Contains(string(text), "-replace="+path+"=/path/to/leat") {
		t.Errorf("README names the old path: %v", err)
	}
	// The layers are a list of paths.
	command(t, dir, nil, "go", "test", "./internal/archtest", "-run", "TestImports")
}
