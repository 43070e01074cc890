//go:build linux

package shm_test

import (
	"fmt"
	"log"

	"leat/ndarray"
	"leat/shm"
)

// Example puts an array and attaches its handle, here in the same process.
func Example() {
	sender, err := shm.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sender.Close()
	image, err := sender.Put([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	// Any view of it travels as a view: here its last row.
	handle, err := sender.HandleOf(image.View().At(1))
	if err != nil {
		log.Fatal(err)
	}

	receiver, err := shm.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer receiver.Close()
	row, err := receiver.Attach(handle, shm.ReadOnly)
	if err != nil {
		log.Fatal(err)
	}
	defer row.Close()
	values, err := shm.Slice[float32](row)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(row.Shape(), values)
	// Output: [3] [4 5 6]
}

// ExampleScope_New has a worker write its result into an array that the caller made.
func ExampleScope_New() {
	caller, err := shm.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer caller.Close()
	output, err := caller.New(ndarray.Int32, 4)
	if err != nil {
		log.Fatal(err)
	}
	handle, err := output.Handle()
	if err != nil {
		log.Fatal(err)
	}

	worker, err := shm.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close()
	part, err := worker.Attach(handle, shm.ReadWrite)
	if err != nil {
		log.Fatal(err)
	}
	values, err := shm.Slice[int32](part)
	if err != nil {
		log.Fatal(err)
	}
	for i := range values {
		values[i] = int32(i * i)
	}
	// The worker is done: nobody writes from now on.
	if err := part.Close(); err != nil {
		log.Fatal(err)
	}
	if err := output.Seal(); err != nil {
		log.Fatal(err)
	}
	result, err := shm.Slice[int32](output)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result)
	// Output: [0 1 4 9]
}
