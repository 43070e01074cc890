package ranged_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"leat/internal/ranged"
	"leat/objstore"
	"leat/raster"
)

func ExampleOpen() {
	// A server with an object of 1 MB.
	object := strings.Repeat("0123456789", 100_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(object))
	}))
	defer server.Close()
	ctx := context.Background()
	b, err := objstore.Open(ctx, server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()

	r, err := ranged.Open(ctx, b, "data.bin", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	// Fetch requests several ranges concurrently; reads of them then come from memory.
	ranges := []raster.Range{{Offset: 500_000, Bytes: 4096}, {Offset: 900_000, Bytes: 4096}}
	release := r.Fetch(ranges, nil)
	defer release()
	buf := make([]byte, 12)
	for _, w := range ranges {
		n, err := r.ReadAt(buf, w.Offset)
		fmt.Printf("%s of %d bytes, %v\n", buf[:n], r.Size(), err)
	}
	// Output:
	// 012345678901 of 1000000 bytes, <nil>
	// 012345678901 of 1000000 bytes, <nil>
}
