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
