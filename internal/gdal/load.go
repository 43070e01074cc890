package gdal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// ErrNotInstalled is returned when there is no usable GDAL, or the binary was built without it. The
// text of the error that wraps it says what to install.
var ErrNotInstalled = errors.New("gdal: not available")

const (
	oldest       = 3_02_00_00 // 3.2, as GDALVersionInfo counts
	libraryInEnv = "LEAT_GDAL_LIBRARY"
	install      = "install it (Debian, Ubuntu: apt-get install gdal-bin, or libgdal32 and the like; conda: conda install -c conda-forge libgdal; Homebrew: brew install gdal), or name the library in " + libraryInEnv
)

// version is the loaded library's version, such as 3060200.
var version int

// load loads the library once per process. It is never unloaded, since GDAL does not support that.
var load = sync.OnceValue(func() error {
	if leftOut != "" {
		return fmt.Errorf("%s (%w)", leftOut, ErrNotInstalled)
	}
	library, name, err := find()
	if err != nil {
		return err
	}
	if err := bind(library, name); err != nil {
		return err
	}
	// GDAL's messages become part of errors. The handler is set for all threads, since GDAL's own
	// decoding threads would print too. It still prints what CPL_DEBUG enables.
	if quiet, err := dlsym(library, "CPLQuietErrorHandler"); err == nil {
		c.CPLSetErrorHandler(quiet)
	}
	if f, err := dlsym(library, "H5Eset_auto2"); err == nil {
		quietHDF5 = f
	}
	c.GDALAllRegister()
	configure()
	return nil
})

// Available returns nil if GDAL can be used, else an error that wraps ErrNotInstalled and says what
// to do. It loads the library.
func Available() error { return load() }

// Version returns the library's version, such as "3.6.2".
func Version() (string, error) {
	if err := load(); err != nil {
		return "", err
	}
	return c.GDALVersionInfo("RELEASE_NAME"), nil
}

// PROJVersion returns the version of PROJ that GDAL uses, such as "9.1.1".
func PROJVersion() (string, error) {
	if err := load(); err != nil {
		return "", err
	}
	var major, minor, patch int32
	c.OSRGetPROJVersion(&major, &minor, &patch)
	return fmt.Sprintf("%d.%d.%d", major, minor, patch), nil
}

// candidates returns the library names to try, in order. The number in Linux's names is 28 for 3.2
// and grows by one with each 3.x.
func candidates() []string {
	if name := os.Getenv(libraryInEnv); name != "" {
		return []string{name}
	}
	var names []string
	add := func(name string) {
		if _, err := os.Stat(name); err == nil {
			names = append(names, name)
		}
	}
	ext := ".so"
	if runtime.GOOS == "darwin" {
		ext = ".dylib"
	}
	if conda := os.Getenv("CONDA_PREFIX"); conda != "" {
		add(filepath.Join(conda, "lib", "libgdal"+ext))
	}
	if runtime.GOOS == "darwin" {
		for _, dir := range []string{"/opt/homebrew/lib", "/usr/local/lib", "/opt/local/lib"} {
			add(filepath.Join(dir, "libgdal"+ext))
		}
		return append(names, "libgdal"+ext)
	}
	for n := 42; n >= 28; n-- {
		names = append(names, "libgdal.so."+strconv.Itoa(n))
	}
	return append(names, "libgdal.so")
}

// find opens the first library that can be opened.
func find() (library uintptr, name string, err error) {
	var faults []error
	for _, name := range candidates() {
		loadDependencies(name)
		library, err := dlopen(name)
		if err == nil {
			return library, name, nil
		}
		// A missing library is expected; one that lacks a dependency is reported.
		if !strings.HasPrefix(err.Error(),
			name+": cannot open shared object file: No such file") && !strings.Contains(err.Error(), "no such file") {
			faults = append(faults, err)
		}
	}
	if name := os.Getenv(libraryInEnv); name != "" {
		text := "there is no such library"
		if len(faults) > 0 {
			text = faults[0].Error()
		}
		return 0, "", fmt.Errorf("%s=%s can't be loaded: %s; name a libgdal (3.2 or later), or unset it to use the system's (%w)", libraryInEnv, name, text, ErrNotInstalled)
	}
	if len(faults) > 0 {
		return 0, "", fmt.Errorf("libgdal can't be loaded: %v; repair its installation, or name another one in %s (%w)",
			faults[0], libraryInEnv, ErrNotInstalled)
	}
	return 0, "", fmt.Errorf("GDAL is not installed (no libgdal of version 3.2 or later was found); %s (%w)", install,
		ErrNotInstalled)
}

// bind fills in the table of functions.
func bind(library uintptr, name string) error {
	sym, err := dlsym(library, "GDALVersionInfo")
	if err != nil {
		dlclose(library)
		return fmt.Errorf("%s is not a libgdal: it lacks the function GDALVersionInfo; %s (%w)", name, install, ErrNotInstalled)
	}
	register(&c.GDALVersionInfo, sym)
	release := c.GDALVersionInfo("RELEASE_NAME")
	if version, err = strconv.Atoi(c.GDALVersionInfo("VERSION_NUM")); err != nil || version < oldest {
		return fmt.Errorf("%s is GDAL %s, which is too old: leat needs 3.2 or later; %s (%w)", name, release, install,
			ErrNotInstalled)
	}
	for _, f := range functions() {
		sym, err := dlsym(library, f.name)
		if err != nil && version < f.since {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s (GDAL %s) lacks the function %s; %s (%w)", name, release, f.name, install, ErrNotInstalled)
		}
		if set := direct[f.name]; set != nil && runtime.GOOS == "linux" {
			set(sym)
		} else {
			register(f.value.Addr().Interface(), sym)
		}
	}
	return nil
}

// maxCache bounds GDAL's cache of decoded blocks, whose own default is a twentieth of the machine's
// memory. leat reads windows that are unions of blocks, so the cache need hold little more than a
// row of blocks for each reader.
const maxCache = 256 << 20

// settings lists the GDAL options that leat sets unless the environment or GDAL's configuration
// file does.
var settings = [][2]string{
	{"GDAL_ERROR_ON_LIBJPEG_WARNING", "YES"}, // damaged JPEG data is an error instead of grey pixels
	{"RAW_CHECK_FILE_SIZE", "YES"},           // uncompressed pixels of less than half their size are an error instead of zeros
	{"GDAL_HTTP_CONNECTTIMEOUT", "30"},       // seconds; without these four, a stalled server blocks a run forever
	{"GDAL_HTTP_LOW_SPEED_TIME", "60"},
	{"GDAL_HTTP_LOW_SPEED_LIMIT", "1"},
	{"GDAL_HTTP_MAX_RETRY", "3"},
}

// configure sets the default options.
func configure() {
	for _, s := range settings {
		if c.CPLGetConfigOption(s[0], "") == "" {
			c.CPLSetConfigOption(s[0], s[1])
		}
	}
	if c.CPLGetConfigOption("GDAL_CACHEMAX", "") == "" {
		c.GDALSetCacheMax64(min(c.GDALGetCacheMax64(), maxCache))
	}
}

// SetCacheBytes bounds GDAL's cache of decoded blocks, which all its rasters share. The default is
// GDAL_CACHEMAX, or else 256 MiB or a twentieth of the machine's memory, whichever is less.
func SetCacheBytes(n int64) error {
	if err := load(); err != nil {
		return err
	}
	c.GDALSetCacheMax64(n)
	return nil
}

// CacheBytes returns the limit of GDAL's cache of decoded blocks.
func CacheBytes() (int64, error) {
	if err := load(); err != nil {
		return 0, err
	}
	return c.GDALGetCacheMax64(), nil
}
