package slurmtest

import (
	"fmt"
	"net"
	"testing"
)

func TestTakenPortIsReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: Slurm's programs wait for seconds for the process at its port")
	}
	skip(t)
	var taken net.Listener
	c := startAmong(t, func(c *Cluster) {
		if taken != nil {
			return
		}
		var err error
		if taken, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", c.controller)); err != nil {
			t.Fatal(err)
		}
	})
	defer taken.Close()
	if left := c.Jobs(t); left != "" {
		t.Error(left)
	}
}
