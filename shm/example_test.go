//go:build linux

package shm_test

import (
	"context"
	"fmt"
	"log"
	"net"

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

// ExampleArray_Send hands a result over to another process, here to the other end of a socket. The
// sender need not wait for its receiver.
func ExampleArray_Send() {
	ctx := context.Background()
	conn, file, err := shm.SocketPair() // file is for a child, see os/exec's ExtraFiles
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	own, err := net.FileConn(file) // what the child does
	if err != nil {
		log.Fatal(err)
	}
	defer own.Close()

	worker, err := shm.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	result, err := worker.Put(make([]float64, 100_000), 100, 1000)
	if err != nil {
		log.Fatal(err)
	}
	if err := result.Send(ctx, own.(*net.UnixConn)); err != nil {
		log.Fatal(err)
	}
	if err := worker.Close(); err != nil { // the array lives on in the socket
		log.Fatal(err)
	}

	receiver, err := shm.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer receiver.Close()
	a, err := receiver.Receive(ctx, conn)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a.Shape(), file.Close())
	// Output: [100 1000] <nil>
}
