package stage_test

import (
	"context"
	"fmt"
	"os"

	"leat/stage"
)

func Example() {
	// A training reads its samples in an order that it knows in advance. The pool copies them to a
	// local disk, once for all processes of the machine, while the program works on earlier ones.
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	pool, err := stage.Open(context.Background(), dir, &stage.Options{MaxBytes: 100 << 30})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	// Objects of a store are read through an objstore.Bucket; here a function makes them.
	samples, err := stage.Func("samples-v1", func(_ context.Context, name string) ([]byte, error) {
		return []byte("bytes of " + name), nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var refs []*stage.Ref
	for _, name := range []string{"7.jpg", "3.jpg"} {
		refs = append(refs, pool.Prefetch(samples, name))
	}
	for _, ref := range refs {
		b, err := ref.Bytes(context.Background())
		ref.Release()
		fmt.Printf("%s %v\n", b, err)
	}
	// Output:
	// bytes of 7.jpg <nil>
	// bytes of 3.jpg <nil>
}
