package namespace_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"leat/namespace"
)

// Example claims a directory that the job writes, and counts with all processes of the job.
func Example() {
	ctx := context.Background()
	parent, err := os.MkdirTemp("", "namespace")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(parent)
	dir := namespace.Dir{Path: filepath.Join(parent, "train"), Remote: "s3://bucket/train"}

	// Children that get job.Environ() join the same job.
	job, err := namespace.Join(ctx, namespace.Spec{Key: namespace.RandomKey(), Dirs: []namespace.Dir{dir}})
	if err != nil {
		log.Fatal(err)
	}
	defer job.Close()
	done, err := job.Counter("done")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Add(1))

	// Another job cannot write the same directory.
	_, err = namespace.Join(ctx, namespace.Spec{Key: namespace.RandomKey(), Dirs: []namespace.Dir{dir}})
	var claimed *namespace.ClaimedError
	fmt.Println(errors.As(err, &claimed), claimed.How)
	// Output:
	// 1
	// true is
}

// ExampleNamespace_Mutex appends to a file that all processes of the job share.
func ExampleNamespace_Mutex() {
	ctx := context.Background()
	job, err := namespace.Join(ctx, namespace.Spec{Key: namespace.RandomKey()})
	if err != nil {
		log.Fatal(err)
	}
	defer job.Close() // the last member's Close removes the directory
	dir, err := job.Dir("logs")
	if err != nil {
		log.Fatal(err)
	}
	mutex, err := job.Mutex("logs")
	if err != nil {
		log.Fatal(err)
	}
	for rank := range 2 { // each in a process of its own
		unlock, err := mutex.Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Fprintln(f, "rank", rank)
		if err := errors.Join(f.Close(), unlock()); err != nil {
			log.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	fmt.Print(string(text), err)
	// Output:
	// rank 0
	// rank 1
	// <nil>
}
