package geotiff

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"leat/raster"
)

// Open opens the GeoTIFF at path, with the overviews, the mask and the metadata that lie in
// files beside it (.ovr, .msk, .aux.xml). A file whose codec is not among those that the package
// decodes is opened too: Info describes it, Readable and Read say why it can't be read. The error wraps
// raster.ErrFormat when the file is no TIFF or is damaged, raster.ErrUnsupported, or the
// system's error.
func Open(path string) (*File, error) {
	r, size, err := openFile(path)
	if err != nil {
		return nil, err
	}
	return OpenAt(r, size, path, besideFile(path))
}

// Beside opens a file that lies beside a raster. Its name is the raster's with suffix behind it or, with instead, in the place of
// its extension. name is for messages. An error that is fs.ErrNotExist says that there is none. The [File] closes r where it is an io.Closer.
type Beside func(suffix string, instead bool) (r io.ReaderAt, size int64, name string, err error)

// OpenAt is Open for a file of size bytes that is read through r, which many goroutines may use at once; name is the path for
// messages and Info. beside opens the files that may lie beside it; nil: there are none. The File closes r where
// it is an io.Closer, also when OpenAt fails. Where r is a [raster.Fetcher] each read tells it first what it will take.
func OpenAt(r io.ReaderAt, size int64, name string, beside Beside) (*File, error) {
	f, err := openReader(r, size, name)
	if err != nil {
		return nil, errors.Join(err, closeAt(r))
	}
	f.addCloser(r)
	if beside != nil {
		if err := f.addSidecars(beside); err != nil {
			f.Close()
			return nil, err
		}
		f.finish()
	}
	return f, nil
}

// closeAt closes r where it can be.
func closeAt(r io.ReaderAt) error {
	if c, ok := r.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

func (f *File) addCloser(r io.ReaderAt) {
	if c, ok := r.(io.Closer); ok {
		f.closers = append(f.closers, c)
	}
}

// besideFile opens the files beside the one at path.
func besideFile(path string) Beside {
	return func(suffix string, instead bool) (io.ReaderAt, int64, string, error) {
		name := path + suffix
		if instead {
			name = strings.TrimSuffix(path, filepath.Ext(path)) + suffix
		}
		r, size, err := openFile(name)
		if err != nil { // not a nil *os.File in r
			return nil, 0, name, err
		}
		return r, size, name, nil
	}
}

// openFile opens a plain file for reading.
func openFile(path string) (*os.File, int64, error) {
	// The kind is looked at first: opening a pipe would wait for its other end.
	st, err := os.Stat(path)
	switch {
	case err != nil:
	case st.IsDir():
		err = fmt.Errorf("is a directory; name the file in it (%w)", raster.ErrFormat)
	case !st.Mode().IsRegular():
		err = fmt.Errorf("is not a plain file, which a raster must be (%w)", raster.ErrFormat)
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(path)
	}
	if err == nil {
		if st, err = f.Stat(); err != nil {
			f.Close()
		}
	}
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the path stands before it
		}
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	return f, st.Size(), nil
}

// textBeside reads the text of a file beside the raster, cut at limit bytes; none is fs.ErrNotExist.
func textBeside(beside Beside, suffix string, instead bool, limit int64) (text, name string, err error) {
	r, size, name, err := beside(suffix, instead)
	if err != nil {
		return "", name, err
	}
	b, err := io.ReadAll(io.NewSectionReader(r, 0, min(size, limit)))
	if err = errors.Join(err, closeAt(r)); err != nil {
		return "", name, fmt.Errorf("%s: %w", name, err)
	}
	return string(b), name, nil
}
