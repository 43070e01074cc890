package pbs

import (
	"testing"

	"leat/internal/worker/pbstest"
	"leat/internal/worker/workertest"
	"leat/worker"
)

func TestConformance(t *testing.T) {
	for name, set := range map[string]pbstest.Settings{"without history": {NoHistory: true}, "with history": {},
		"old, without history": {Old: true, NoHistory: true}} {
		t.Run(name, func(t *testing.T) {
			if (set.Old || !set.NoHistory) && testing.Short() {
				t.Skip("-short: the default settings are enough")
			}
			servers := map[worker.Launcher]*pbstest.Server{}
			workertest.Launcher(t, workertest.Setup{
				Launcher: func(t *testing.T) worker.Launcher {
					k := newLauncher(&Options{MaxArray: 3})
					k.times = quick
					servers[k] = pbstest.New(t, set)
					return k
				},
				Left: func(_ *testing.T, k worker.Launcher) []string { return servers[k].Left() },
			})
		})
	}
}
