// Command sharing shares a band with worker processes that scale it into one output array, without
// copying either.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strconv"

	"leat/namespace"
	"leat/ndarray"
	"leat/shm"
)

const rows, columns, workers = 1000, 2000, 2

// task is the work of a worker: which rows of which arrays.
type task struct {
	Band, Output shm.Handle
	First, Last  int
}

func main() {
	log.SetFlags(0)
	run := parent
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		run = worker
	}
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// parent shares the arrays, starts the workers, and reads what they wrote.
func parent(ctx context.Context) error {
	job, err := namespace.Join(ctx, namespace.Spec{})
	if err != nil {
		return err
	}
	defer job.Close()
	arrays, err := shm.Open(nil)
	if err != nil {
		return err
	}
	defer arrays.Close() // frees both arrays; a SIGKILL would free them too

	pixels := make([]uint16, rows*columns)
	for i := range pixels {
		pixels[i] = uint16(i % 10000)
	}
	band, err := arrays.Put(pixels, rows, columns) // a snapshot that nobody can change
	if err != nil {
		return err
	}
	output, err := arrays.New(ndarray.Float32, rows, columns) // zeros that the workers fill
	if err != nil {
		return err
	}
	bandHandle, err := band.Handle()
	if err != nil {
		return err
	}
	outputHandle, err := output.Handle()
	if err != nil {
		return err
	}

	var started []*exec.Cmd
	for w := range workers {
		cmd := exec.Command(os.Args[0], "worker")
		cmd.Env = append(os.Environ(), job.Environ()...) // they join the same namespace
		cmd.Stderr = os.Stderr
		stdin, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		started = append(started, cmd)
		t := task{bandHandle, outputHandle, rows * w / workers, rows * (w + 1) / workers}
		if err := json.NewEncoder(stdin).Encode(t); err != nil {
			return err
		}
		stdin.Close()
	}
	for _, cmd := range started {
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("a worker: %w", err)
		}
	}
	if err := output.Seal(); err != nil { // from here on nobody writes to it
		return err
	}

	done, err := job.Counter("rows")
	if err != nil {
		return err
	}
	values, err := shm.Slice[float32](output)
	if err != nil {
		return err
	}
	var sum float64
	for _, v := range values {
		sum += float64(v)
	}
	fmt.Printf("%d rows by %d workers, mean %.3f\n", done.Load(), workers, sum/float64(len(values)))

	if len(os.Args) > 2 && os.Args[1] == "python" { // sharing python SCRIPT: NumPy reads the same memory
		path, offset, err := output.File()
		if err != nil {
			return err
		}
		cmd := exec.Command("python3", os.Args[2], path, strconv.FormatInt(offset, 10), string(outputHandle))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd.Run()
	}
	return nil
}

// worker scales its rows and ends.
func worker(ctx context.Context) error {
	job, err := namespace.Join(ctx, namespace.Spec{})
	if err != nil {
		return err
	}
	defer job.Close()
	done, err := job.Counter("rows")
	if err != nil {
		return err
	}
	arrays, err := shm.Open(nil)
	if err != nil {
		return err
	}
	defer arrays.Close()

	text, err := io.ReadAll(bufio.NewReader(os.Stdin))
	if err != nil {
		return err
	}
	var t task
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	band, err := arrays.Attach(t.Band, shm.ReadOnly)
	if err != nil {
		return err
	}
	output, err := arrays.Attach(t.Output, shm.ReadWrite)
	if err != nil {
		return err
	}
	in, err := shm.Slice[uint16](band)
	if err != nil {
		return err
	}
	out, err := shm.Slice[float32](output)
	if err != nil {
		return err
	}
	for row := t.First; row < t.Last; row++ {
		for c := row * columns; c < (row+1)*columns; c++ {
			out[c] = float32(in[c]) * 0.0001
		}
		done.Add(1)
	}
	return nil
}
