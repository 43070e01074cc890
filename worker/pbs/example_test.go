package pbs_test

import (
	"context"
	"log"

	"leat/apply"
	"leat/worker/pbs"
)

// Example computes a job with 64 workers of the queue "short", with two cores each.
func Example() {
	l := pbs.New(&pbs.Options{
		Directives: []string{"-q short -l walltime=1:00:00"},
		Init:       []string{"module load gdal || exit 1"},
		CPUs:       2,
	})
	if err := l.Check(context.Background()); err != nil {
		log.Fatal(err) // no PBS here, or an invalid option
	}
	_, err := apply.Run(context.Background(), apply.Job{
		Inputs:      map[string]apply.Input{"dem": apply.File("/data/dem.tif")},
		Outputs:     map[string]apply.Output{"feet": {Path: "/data/feet.tif"}},
		Expressions: map[string]string{"feet": "dem / 0.3048"},
		Concurrency: apply.Concurrency{On: l, Workers: 64},
	})
	if err != nil {
		log.Fatal(err)
	}
}
