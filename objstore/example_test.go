package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"leat/objstore"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	// A directory, or with the drivers of objstore/cloud: "s3://bucket/prefix", "gs://bucket".
	b, err := objstore.Open(ctx, "file://"+filepath.ToSlash(dir), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	text := "an object of 25 bytes ..."
	if err := b.Upload(ctx, "a/1.txt", strings.NewReader(text), int64(len(text)), objstore.UploadOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	for info, err := range b.List(ctx, "a/") {
		fmt.Println(info.Name, info.Size, err)
	}

	// The zero Retry repeats failed requests and resumes a body that breaks off.
	var retry objstore.Retry
	info, body, err := retry.Read(ctx, b, "a/1.txt", 3, 6, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer body.Close()
	part, err := io.ReadAll(body)
	fmt.Printf("%q of %d bytes, %v\n", part, info.Size, err)

	_, err = retry.Stat(ctx, b, "a/2.txt")
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output:
	// a/1.txt 25 <nil>
	// "object" of 25 bytes, <nil>
	// true
}
