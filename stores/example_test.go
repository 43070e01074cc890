//go:build !race && !nocloud

// Not with the race detector: no other test of a package in make race needs the clients of clouds.

package stores_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"leat/ndarray"
	"leat/npy"
	"leat/objstore"
	"leat/objstore/cloud"
	"leat/stores"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	s := stores.New(&stores.Options{
		Store:    objstore.Options{Drivers: cloud.Drivers()},
		StageDir: filepath.Join(dir, "stage"), // copies of the inputs that are read as a whole
	})
	defer s.Close()

	// In a job of package apply, Job.Open is s.Open and Job.Store is s.
	array, err := npy.AppendHeader(nil, ndarray.Uint16, 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	array = append(array, make([]byte, 2*3*2)...)
	url := "mem://scenes/dem.npy"
	if err := s.Upload(ctx, url, bytes.NewReader(array), int64(len(array)), objstore.UploadOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	src, err := s.Open(ctx, url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer src.Close()
	info := src.Info()
	fmt.Println(info.Grid.Width, info.Grid.Height, info.Bands[0].Type)
	// Output:
	// 3 2 uint16
}
