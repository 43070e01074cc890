package pbs

import (
	"testing"

	"leat/worker"
	"leat/worker/pbs/pbstest"
	"leat/worker/workertest"
)

func TestKind(t *testing.T) {
	for name, set := range map[string]pbstest.Settings{"present": {}, "old, without history": {Old: true, NoHistory: true}} {
		t.Run(name, func(t *testing.T) {
			if set.Old && testing.Short() {
				t.Skip("with -short the other is enough")
			}
			servers := map[worker.Kind]*pbstest.Server{}
			workertest.Kind(t, workertest.Setup{
				Kind: func(t *testing.T) worker.Kind {
					k := New(&Options{MaxArray: 3})
					k.times = quick
					servers[k] = pbstest.New(t, set)
					return k
				},
				Left: func(_ *testing.T, k worker.Kind) []string { return servers[k].Left() },
			})
		})
	}
}
