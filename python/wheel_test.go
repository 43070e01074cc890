package python

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// buildWheel returns the path of a wheel with a leat.
func buildWheel(t *testing.T, leat string) string {
	t.Helper()
	dir := t.TempDir()
	python(t, []string{"LEAT_BINARY=" + leat}, "/usr/bin/python3", "-B", "_build/leat_build.py", dir)
	wheels, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(wheels) != 1 {
		t.Fatalf("wheels: %q, %v", wheels, err)
	}
	return wheels[0]
}

// python runs a command with variables of the environment and returns what it printed.
func python(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// needsVenv skips the test if Debian's Python can't make virtual environments.
func needsVenv(t *testing.T) {
	t.Helper()
	if exec.Command("/usr/bin/python3", "-c", "import venv, ensurepip").Run() != nil {
		t.Skip("no /usr/bin/python3 with venv (Debian: apt-get install python3-venv)")
	}
}

func TestWheel(t *testing.T) {
	t.Parallel()
	if exec.Command("/usr/bin/python3", "-c", "import zipfile").Run() != nil {
		t.Skip("no /usr/bin/python3 here")
	}
	leat := filepath.Join(t.TempDir(), "leat") // the start of a program for Linux on x86_64
	head := append([]byte("\x7fELF\x02"), make([]byte, 1000)...)
	head[18] = 62
	if err := os.WriteFile(leat, head, 0o700); err != nil {
		t.Fatal(err)
	}
	wheel := buildWheel(t, leat)
	first, err := os.ReadFile(wheel)
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(buildWheel(t, leat))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("two wheels of the same files differ")
	}
	if !strings.HasSuffix(wheel, "-py3-none-manylinux_2_17_x86_64.whl") {
		t.Errorf("the wheel is %s", filepath.Base(wheel))
	}
	archive, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range archive.File {
		names[f.Name] = true
		if strings.Contains(f.Name, "__pycache__") {
			t.Errorf("the wheel has %s", f.Name)
		}
	}
	for _, name := range []string{"leat/__init__.py", "leat/errors.py", "leat/py.typed", "leat/VERSION"} {
		if !names[name] {
			t.Errorf("the wheel lacks %s", name)
		}
	}
}

// TestInstallation runs the commands of README's Python section, which install the package in a new
// virtual environment, without a network or setuptools.
func TestInstallation(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: makes a virtual environment")
	}
	needsVenv(t)
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Python\n\n```\n")
	commands, _, ok := strings.Cut(section, "```")
	if !ok {
		t.Fatal("README.md has no commands in its Python section")
	}
	dir := t.TempDir()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(here, filepath.Join(dir, "python")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", commands)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), installing(t)...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "\nb'data'\n") {
		t.Fatalf("the commands printed %q, %v", out, err)
	}
	bin := filepath.Join(dir, "venv", "bin")
	checkInstalled(t, bin, filepath.Join(bin, "leat"))
}

// TestEditableInstallation installs the package so that it refers to its directory.
func TestEditableInstallation(t *testing.T) {
	if os.Getenv("LEAT_TEST_DIST") == "" {
		t.Skip("LEAT_TEST_DIST is not set: makes another virtual environment")
	}
	needsVenv(t)
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	env := installing(t)
	python(t, env, "/usr/bin/python3", "-m", "venv", dir)
	python(t, env, filepath.Join(bin, "pip"), "install", "--quiet", "--no-index", "--editable", ".")
	program, err := filepath.Abs("../bin/leat")
	if err != nil {
		t.Fatal(err)
	}
	if !exists(program) {
		program = filepath.Join(bin, "leat")
	}
	checkInstalled(t, bin, program)
}

// installing returns variables for installations with a leat built by buildLeat.
func installing(t *testing.T) []string {
	t.Helper()
	return []string{"LEAT_BINARY=" + buildLeat(t), "LEAT_CACHE_DIR=" + t.TempDir(),
		"PIP_DISABLE_PIP_VERSION_CHECK=1", "PYTHONDONTWRITEBYTECODE=1"}
}

// checkInstalled checks the package and the program below a virtual environment.
func checkInstalled(t *testing.T, bin, program string) {
	t.Helper()
	text, err := os.ReadFile("../cmd/leat/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimSpace(string(text))
	out := python(t, []string{"LEAT_BINARY="}, filepath.Join(bin, "python"), "-I", "-c",
		"import leat, leat._binary; print(leat.__version__, leat._binary.binary())")
	if want := version + " " + program + "\n"; out != want {
		t.Errorf("version and program %q, expected %q", out, want)
	}
	if out := python(t, nil, filepath.Join(bin, "leat"), "version"); !strings.HasPrefix(out, "leat "+version) {
		t.Errorf("leat version: %q", out)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
