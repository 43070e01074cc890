package gdal

import (
	"archive/zip"
	"bytes"
	"context"
	"unsafe"

	"leat/ndarray"
)

func ptr(a *ndarray.Array) unsafe.Pointer { return unsafe.Pointer(&a.Data[a.Offset]) }

// stored returns a zip archive of one file.
func stored(name string, b []byte) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
	if err == nil {
		_, err = f.Write(b)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(err)
	}
	return out.Bytes()
}

// ctxOf returns the context of a child process.
func ctxOf() context.Context { return context.Background() }
