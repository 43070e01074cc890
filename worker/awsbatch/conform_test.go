//go:build !nocloud

package awsbatch

import (
	"testing"

	"leat/internal/worker/batchtest"
	"leat/internal/worker/workertest"
	"leat/worker"
)

func TestConformance(t *testing.T) {
	for name, secret := range map[string]string{"Secrets Manager": "secretsmanager:" + batchtest.Secret,
		"parameter store": "ssm:/leat/run"} {
		t.Run(name, func(t *testing.T) {
			if name == "parameter store" && testing.Short() {
				t.Skip("-short: the other is enough")
			}
			servers := map[worker.Launcher]*batchtest.Server{}
			workertest.Launcher(t, workertest.Setup{
				Launcher: func(t *testing.T) worker.Launcher {
					s := batchtest.New(t, batchtest.Settings{})
					k := newLauncher(&Options{Queue: batchtest.Queue, Image: "image", Secret: secret, Endpoint: s.URL})
					k.times, k.maxArray = quick, 3
					servers[k] = s
					return k
				},
				Left: func(_ *testing.T, k worker.Launcher) []string {
					return append(servers[k].Left(), servers[k].Definitions()...)
				},
			})
		})
	}
}
