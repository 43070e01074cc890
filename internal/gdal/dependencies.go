package gdal

import (
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// triplets lists how Debian names architectures in directories.
var triplets = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu",
	"loong64": "loongarch64-linux-gnu", "ppc64le": "powerpc64le-linux-gnu", "riscv64": "riscv64-linux-gnu"}

// loadDependencies loads the libraries that a libgdal needs one by one. If they were loaded with
// it, the system would look up each symbol in all of its hundred libraries, which takes twice as
// long. loadDependencies ignores errors: loading the libgdal, which needs the same libraries,
// reports them.
func loadDependencies(name string) {
	if runtime.GOOS != "linux" {
		return
	}
	for _, library := range dependencies(name) {
		dlopen(library)
	}
}

// dependencies returns the names of the libraries that a library needs. It returns nil if it can't
// read them, or if it is uncertain which file the system loads because a search path is set or
// several directories have the library.
func dependencies(name string) []string {
	path := name
	if !strings.Contains(name, "/") {
		if os.Getenv("LD_LIBRARY_PATH") != "" {
			return nil
		}
		if path = systemLibrary(name); path == "" {
			return nil
		}
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		if dirs, err := f.DynString(tag); err != nil || len(dirs) > 0 {
			return nil
		}
	}
	names, err := f.ImportedLibraries()
	if err != nil {
		return nil
	}
	return names
}

// systemLibrary returns the path of a library of the system, or "" if there are none or several.
func systemLibrary(name string) string {
	found, info := "", os.FileInfo(nil)
	for _, dir := range []string{"/usr/local/lib", "/usr/local/lib64", "/usr/lib", "/usr/lib64", "/lib", "/lib64"} {
		for _, sub := range []string{"", triplets[runtime.GOARCH]} {
			path := filepath.Join(dir, sub, name)
			i, err := os.Stat(path)
			switch {
			case err != nil:
			case found == "":
				found, info = path, i
			case !os.SameFile(info, i):
				return ""
			}
		}
	}
	return found
}
