package slurm_test

import (
	"context"
	"log"

	"leat/apply"
	"leat/worker/slurm"
)

// Example computes a job with 64 workers in the partition "short", with two cores each.
func Example() {
	l := slurm.New(&slurm.Options{
		Directives: []string{`-p short --time=1:00:00 --comment="band math"`},
		Init:       []string{"module load gdal || exit 1"},
		CPUs:       2,
	})
	if err := l.Check(context.Background()); err != nil {
		log.Fatal(err) // no Slurm here, or an invalid option
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
