package subprocess_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"

	"leat/apply"
	"leat/worker"
	"leat/worker/subprocess"
)

var functions = apply.Functions{"feet": {Func: func(_ context.Context, b *apply.Block) error {
	dem, out := apply.As[float32](b, "dem"), apply.Out[float32](b, "feet")
	for i, v := range dem {
		out[i] = v / 0.3048
	}
	return nil
}}}

// Example runs a program's own function in four child processes, which are the same program. The
// directory examples/workers has a complete one.
func Example() {
	apply.Main(functions, nil) // first in main: in a worker it does not return
	_, err := apply.Run(context.Background(), apply.Job{
		Inputs:    map[string]apply.Input{"dem": apply.File("dem.tif")},
		Outputs:   map[string]apply.Output{"feet": {Path: "feet.tif", Nodata: "nan"}},
		Functions: functions, Function: "feet",
		Concurrency: apply.Concurrency{On: subprocess.New(nil), Workers: 4},
	})
	if err != nil {
		log.Fatal(err)
	}
}

// ExampleLauncher_Start starts a program without a run: the launcher reports the exits of workers,
// and Output receives their lines.
func ExampleLauncher_Start() {
	var running sync.WaitGroup
	running.Add(1)
	l := subprocess.New(&subprocess.Options{Output: os.Stdout})
	fleet, err := l.Start(context.Background(), worker.StartOptions{
		Workers: 1, Command: []string{"/bin/sh", "-c", "echo computing; exit 3"},
		Connect: func() (*os.File, error) { return os.Open(os.DevNull) },
		OnExit: func(e worker.Exit) {
			fmt.Println(e.Name, "ended:", e.Err)
			running.Done()
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	running.Wait()
	if err := fleet.Stop(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// subprocess-0: computing
	// subprocess-0 ended: exit status 3
}
