//go:build linux

package cache_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"leat/cache"
)

func Example() {
	// A data loader needs sample 3 in every epoch and reads it from its store once.
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	c, err := cache.Create(1_000_000, &cache.Options{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	for range 3 {
		sample, err := c.GetOrFill(context.Background(), 3, func(context.Context) ([]byte, error) {
			fmt.Println("reading")
			return []byte("sample 3"), nil
		})
		fmt.Printf("%s %v\n", sample, err)
	}
	// Output:
	// reading
	// sample 3 <nil>
	// sample 3 <nil>
	// sample 3 <nil>
}

func ExampleAttach() {
	// Another process gets the handle as an argument or through a pipe and uses the same entries.
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	c, err := cache.Create(10, &cache.Options{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	handle, err := c.Handle()
	if err != nil {
		fmt.Println(err)
		return
	}

	other, err := cache.Attach(handle, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer other.Close()
	stored, err := other.Put(1, []byte("entry 1"))
	fmt.Println(stored, err)
	fmt.Println(c.View(1, func(data []byte) error {
		fmt.Printf("%s\n", data)
		return nil
	}))

	// Preserve gives the cache a name, under which it stays.
	fmt.Println(c.Preserve(context.Background(), filepath.Join(dir, "kept"), false))
	kept, err := cache.Load(filepath.Join(dir, "kept"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer kept.Close()
	fmt.Println(kept.Has(1))
	// Output:
	// true <nil>
	// entry 1
	// <nil>
	// 0 <nil>
	// true <nil>
}
