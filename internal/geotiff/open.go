package geotiff

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"leat/internal/driver"
)

// Open opens the GeoTIFF at path, with the overviews, the mask, the transform and the metadata in
// its sidecars (.ovr, .msk, world file, .aux.xml). It also opens a file that it cannot decode: Info
// describes it, and CheckReadable and Read return the reason. Its error wraps raster.ErrFormat if
// the file is not a TIFF or is damaged, raster.ErrUnsupported, or the system's error.
func Open(path string) (*File, error) {
	r, size, err := driver.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := OpenAt(r, size, path, sidecarFiles(path))
	if err == nil {
		f.warnOfERDAS(path)
		f.warnOfRPCFiles(path)
	}
	return f, err
}

// warnOfERDAS warns of a sidecar in ERDAS's format, which GDAL reads if there is no .aux.xml.
func (f *File) warnOfERDAS(path string) {
	if _, err := os.Stat(path + ".aux.xml"); err == nil {
		return
	}
	for _, name := range []string{strings.TrimSuffix(path, filepath.Ext(path)) + ".aux", path + ".aux"} {
		r, _, err := driver.Open(name)
		if err != nil {
			continue
		}
		head := make([]byte, len(erdasMagic))
		_, err = r.ReadAt(head, 0)
		r.Close()
		if err == nil && string(head) == erdasMagic {
			f.info.Warnings = append(f.info.Warnings,
				name+": sidecars of ERDAS are ignored (gdal_translate reads them)")
			return
		}
	}
}

// warnOfRPCFiles warns of RPCs in files of their own, which GDAL reads where the TIFF has none.
func (f *File) warnOfRPCFiles(path string) {
	if f.info.Grid.RPC != nil {
		return
	}
	base := strings.TrimSuffix(path, filepath.Ext(path))
	for _, suffix := range []string{"_RPC.TXT", "_rpc.txt", ".RPB", ".rpb"} {
		if _, err := os.Stat(base + suffix); err == nil {
			f.info.Warnings = append(f.info.Warnings,
				"the RPCs in "+base+suffix+" are not read: GDAL reads them (gdal_translate)")
			return
		}
	}
}

// erdasMagic starts files in ERDAS's format.
const erdasMagic = "EHFA_HEADER_TAG"

// SidecarOpener opens a sidecar of a raster. Its name is the raster's name with suffix appended or,
// with instead, with suffix in place of its extension. The returned name is for messages. If there
// is no such file, the error is fs.ErrNotExist. The [File] closes r if it is an io.Closer.
type SidecarOpener func(suffix string, instead bool) (r io.ReaderAt, size int64, name string, err error)

// OpenAt is Open for a file of size bytes that is read through r, which must allow concurrent
// reads; name is the path in messages and in Info. sidecars opens the file's sidecars; nil means
// that there are none. The File closes r if it is an io.Closer, also when OpenAt fails. If r is a
// [raster.Prefetcher], each read first calls its Fetch.
func OpenAt(r io.ReaderAt, size int64, name string, sidecars SidecarOpener) (*File, error) {
	f, err := openReader(r, size, name)
	if err != nil {
		return nil, errors.Join(err, driver.Close(r))
	}
	f.addCloser(r)
	if sidecars != nil {
		if err := f.addSidecars(sidecars); err != nil {
			f.Close()
			return nil, err
		}
		f.finish()
	}
	return f, nil
}

func (f *File) addCloser(r io.ReaderAt) {
	if c, ok := r.(io.Closer); ok {
		f.closers = append(f.closers, c)
	}
}

// sidecarFiles returns a SidecarOpener for the file at path.
func sidecarFiles(path string) SidecarOpener {
	return func(suffix string, instead bool) (io.ReaderAt, int64, string, error) {
		name := path + suffix
		if instead {
			name = strings.TrimSuffix(path, filepath.Ext(path)) + suffix
		}
		r, size, err := driver.Open(name)
		if errors.Is(err, syscall.ENAMETOOLONG) { // so it does not exist
			err = fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		}
		if err != nil { // r must not hold a nil *os.File
			return nil, 0, name, err
		}
		return r, size, name, nil
	}
}

// sidecarText reads the text of a sidecar, at most limit bytes. If there is none the error is
// fs.ErrNotExist.
func sidecarText(sidecars SidecarOpener, suffix string, instead bool, limit int64) (text, name string, err error) {
	r, size, name, err := sidecars(suffix, instead)
	if err != nil {
		return "", name, err
	}
	b, err := io.ReadAll(io.NewSectionReader(r, 0, min(size, limit)))
	if err = errors.Join(err, driver.Close(r)); err != nil {
		return "", name, fmt.Errorf("%s: %w", name, err)
	}
	return string(b), name, nil
}
