//go:build linux

package cache_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"leat/cache"
	"leat/codec"
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

func ExampleTyped() {
	// A named cache stays, and grows from run to run. Its values are encoded by a codec.
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	type mean struct{ Red, NIR float64 }
	for range 2 { // two runs
		c, err := cache.Open(filepath.Join(dir, "means"), 1000, &cache.Options{MaxBytes: 1 << 20})
		if err != nil {
			log.Fatal(err)
		}
		means := cache.NewTyped(c, codec.JSON[mean]())
		m, err := means.GetOrFill(context.Background(), 7, func(context.Context) (mean, error) {
			fmt.Println("computing")
			return mean{0.1, 0.4}, nil
		})
		fmt.Println(m, err)
		if err := c.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// computing
	// {0.1 0.4} <nil>
	// {0.1 0.4} <nil>
}
