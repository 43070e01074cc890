package awsbatch

import (
	"testing"

	"leat/worker"
	"leat/worker/awsbatch/batchtest"
	"leat/worker/workertest"
)

func TestKind(t *testing.T) {
	for name, secret := range map[string]string{"Secrets Manager": "secretsmanager:" + batchtest.Secret, "parameter store": "ssm:/leat/run"} {
		t.Run(name, func(t *testing.T) {
			if name == "parameter store" && testing.Short() {
				t.Skip("with -short the other is enough")
			}
			servers := map[worker.Kind]*batchtest.Server{}
			workertest.Kind(t, workertest.Setup{
				Kind: func(t *testing.T) worker.Kind {
					s := batchtest.New(t, batchtest.Settings{})
					k := New(&Options{Queue: batchtest.Queue, Image: "image", Secret: secret, Endpoint: s.URL})
					k.times, k.maxArray = quick, 3
					servers[k] = s
					return k
				},
				Left: func(_ *testing.T, k worker.Kind) []string {
					return append(servers[k].Left(), servers[k].Definitions()...)
				},
			})
		})
	}
}
