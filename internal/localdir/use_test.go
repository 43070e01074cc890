//go:build linux

package localdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var (
	errRemote  = errors.New("test: not local")
	errForeign = errors.New("test: another's")
	use        = &Use{Many: "tests", Shared: "results", Remote: errRemote,
		Foreign: errForeign}
)

// setAll sets the variables that the rule looks at, the others to nothing.
func setAll(t *testing.T, vars map[string]string) {
	for _, name := range []string{Variable, "XDG_CACHE_HOME", "HOME", "SLURM_TMPDIR", "TMPDIR"} {
		t.Setenv(name, vars[name])
	}
}

func TestOpenUsesFirstUsableDirectory(t *testing.T) {
	uid := strconv.Itoa(os.Geteuid())
	for what, test := range map[string]struct {
		named string // below the test's directory, which vars mean by @
		vars  map[string]string
		want  string // likewise; empty: none
	}{
		"the option": {"there", map[string]string{Variable: "@/v", "HOME": "@/h"}, "there"},
		"the variable, made": {"",
			map[string]string{Variable: "@/v/deep", "XDG_CACHE_HOME": "@/x", "HOME": "@/h"}, "v/deep"},
		"the user's cache directory": {"",
			map[string]string{"XDG_CACHE_HOME": "@/x", "HOME": "@/h", "TMPDIR": "@/t"}, "x/leat"},
		"the user's home": {"",
			map[string]string{"HOME": "@/h", "SLURM_TMPDIR": "@/s", "TMPDIR": "@/t"}, "h/.cache/leat"},
		"a relative one does not count": {"", map[string]string{"XDG_CACHE_HOME": "x", "HOME": "@/h"},
			"h/.cache/leat"},
		"the job's":     {"", map[string]string{"SLURM_TMPDIR": "@/s", "TMPDIR": "@/t"}, "s"},
		"the machine's": {"", map[string]string{"TMPDIR": "@/t"}, "t/leat-" + uid},
		"a home that is not local": {"", map[string]string{"HOME": "/proc/self", "TMPDIR": "@/t"},
			"t/leat-" + uid},
		"a home that is a file": {"", map[string]string{"HOME": "@/file", "TMPDIR": "@/t"},
			"t/leat-" + uid},
		"others may write to it": {"", map[string]string{"XDG_CACHE_HOME": "@/open", "TMPDIR": "@/t"},
			"t/leat-" + uid},
		"a variable that is not local":       {"", map[string]string{Variable: "/proc/self", "HOME": "@/h"}, ""},
		"an option that is not local":        {"/proc/self", map[string]string{"HOME": "@/h"}, ""},
		"an option that is not there, made":  {"none/deep", map[string]string{"HOME": "@/h"}, "none/deep"},
		"a variable that is a file":          {"", map[string]string{Variable: "@/file", "HOME": "@/h"}, ""},
		"nothing that was guessed can serve": {"", map[string]string{"HOME": "/proc/self", "TMPDIR": "@/file"}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			base := t.TempDir()
			for _, dir := range []string{"there", "open/leat", "t"} {
				must(t, os.MkdirAll(filepath.Join(base, dir), 0o700))
			}
			must(t, os.Chmod(filepath.Join(base, "open/leat"), 0o777))
			must(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
			vars := map[string]string{}
			for name, v := range test.vars {
				vars[name] = strings.Replace(v, "@", base, 1)
			}
			setAll(t, vars)
			named := test.named
			if named != "" && !filepath.IsAbs(named) {
				named = filepath.Join(base, named)
			}
			dir, fd, err := use.Open(named, false)
			if test.want == "" {
				if err == nil {
					t.Errorf("opened %s", dir)
				}
				return
			}
			must(t, err)
			var a, b unix.Stat_t
			must(t, unix.Fstat(fd, &a))
			must(t, unix.Stat(dir, &b))
			must(t, unix.Close(fd))
			if dir != filepath.Join(base, test.want) || a.Ino != b.Ino || a.Dev != b.Dev {
				t.Errorf("it is %s, not %s", dir, test.want)
			}
		})
	}
}

func TestErrorsNameDirectory(t *testing.T) {
	setAll(t, nil)
	base := t.TempDir()
	must(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	for _, test := range []struct {
		dir   string
		is    error
		words string
	}{
		{"/proc/self", errRemote, "test: not local: /proc/self is on a network file system or one that leat does not know"},
		{filepath.Join(base, "file", "none"), unix.ENOTDIR, "directory " + base + "/file/none: "},
		{filepath.Join(base, "file"), unix.ENOTDIR, "directory " + base + "/file: "},
	} {
		_, _, err := use.Open(test.dir, false)
		if !errors.Is(err, test.is) || !strings.HasPrefix(err.Error(), test.words) {
			t.Errorf("%s: %v", test.dir, err)
		}
	}
	err := Explain("/x", &fs.PathError{Op: "open", Path: "/y", Err: unix.EROFS})
	if !errors.Is(err, unix.EROFS) || !strings.HasPrefix(err.Error(), "directory /x: ") || strings.Contains(err.Error(), "/y") {
		t.Error(err)
	}
	t.Setenv("HOME", "/proc/self")
	t.Setenv("TMPDIR", "/proc/self")
	if _, _, err := use.Open("", false); err == nil || !strings.HasPrefix(err.Error(),
		"no directory for tests, and LEAT_CACHE_DIR names none: ") {
		t.Errorf("%v", err)
	}
}

func TestOpenAnywhereAllowsAnyFileSystem(t *testing.T) {
	setAll(t, nil)
	dir, fd, err := use.Open("/proc/self", true)
	must(t, err)
	must(t, unix.Close(fd))
	if dir != "/proc/self" {
		t.Errorf("%s", dir)
	}
}

func TestNamedDirectoryIsCreatedPrivate(t *testing.T) {
	setAll(t, nil)
	path := filepath.Join(t.TempDir(), "a", "b")
	_, fd, err := use.Open(path, false)
	must(t, err)
	must(t, unix.Close(fd))
	st, err := os.Stat(path)
	must(t, err)
	if st.Mode().Perm() != 0o700 {
		t.Errorf("its mode is %v", st.Mode())
	}
}

func TestForeignDefaultDirectoryIsSkipped(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make things that belong to others")
	}
	base := t.TempDir()
	setAll(t, map[string]string{"XDG_CACHE_HOME": base + "/x", "SLURM_TMPDIR": base + "/s"})
	must(t, os.MkdirAll(base+"/x/leat", 0o700))
	must(t, os.Chown(base+"/x/leat", 12345, 12345))
	must(t, os.MkdirAll(base+"/real", 0o700))
	must(t, os.Symlink(base+"/real", base+"/s"))
	must(t, os.Lchown(base+"/s", 12345, 12345))
	_, _, err := use.Open("", false)
	if !errors.Is(err, errForeign) || !strings.Contains(err.Error(), base+"/x/leat") || !strings.Contains(err.Error(),
		base+"/s belongs") {
		t.Errorf("%v", err)
	}
	must(t, os.Lchown(base+"/s", 0, 0))
	dir, fd, err := use.Open("", false)
	must(t, err)
	must(t, unix.Close(fd))
	if dir != base+"/s" {
		t.Errorf("it is %s", dir)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
