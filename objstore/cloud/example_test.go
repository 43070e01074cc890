//go:build !nocloud

package cloud_test

import (
	"context"
	"fmt"
	"strings"

	"leat/objstore"
	"leat/objstore/cloud"
)

func ExampleDrivers() {
	ctx := context.Background()
	o := &objstore.Options{Drivers: cloud.Drivers()}
	// "s3://bucket", "gs://bucket" and "azblob://container" are opened likewise, with the
	// credentials that the providers' own tools find. mem:// is a store in memory, for tests.
	b, err := objstore.Open(ctx, "mem://scenes", o)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	err = b.Upload(ctx, "2026/B04.tif", strings.NewReader("pixels"), 6, objstore.UploadOptions{IfAbsent: true})
	fmt.Println(err)
	info, err := b.Stat(ctx, "2026/B04.tif")
	fmt.Println(info.Size, err)
	// Output:
	// <nil>
	// 6 <nil>
}
