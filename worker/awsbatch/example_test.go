//go:build !nocloud

package awsbatch_test

import (
	"context"
	"log"

	"leat/apply"
	"leat/objstore"
	"leat/objstore/cloud"
	"leat/stores"
	"leat/worker/awsbatch"
)

// Example computes a job with 100 containers of two vCPUs each. The image contains this program,
// which must begin with apply.Main.
func Example() {
	s := stores.New(&stores.Options{Store: objstore.Options{Drivers: cloud.Drivers()}})
	l := awsbatch.New(&awsbatch.Options{
		Queue:  "spot",
		Image:  "123456789012.dkr.ecr.eu-central-1.amazonaws.com/bandmath:latest",
		VCPUs:  2,
		Secret: "secretsmanager:leat/run", // exists; the workers' role may read it
	})
	if err := l.Check(context.Background()); err != nil {
		log.Fatal(err) // a missing permission, queue or secret
	}
	_, err := apply.Run(context.Background(), apply.Job{
		Inputs:      map[string]apply.Input{"dem": apply.File("s3://bucket/dem.tif")},
		Outputs:     map[string]apply.Output{"feet": {Path: "s3://bucket/feet.tif"}},
		Expressions: map[string]string{"feet": "dem / 0.3048"},
		Open:        s.Open, Store: s,
		Concurrency: apply.Concurrency{On: l, Workers: 100},
	})
	if err != nil {
		log.Fatal(err)
	}
}
