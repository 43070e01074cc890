package client

import (
	"strings"
	"testing"

	"leat/internal/worker/protocol"
	"leat/worker"
)

func FuzzEnvironment(f *testing.F) {
	f.Add(worker.EnvEndpoint, "fds:3,4,5", worker.EnvName, "a-1", worker.EnvSlots, "2")
	f.Add(worker.EnvEndpoint, testText(f, testEndpoint()), protocol.EnvKind, "a", protocol.EnvIndexFrom, "I")
	f.Add(protocol.EnvSecret, "ssm:x", worker.EnvName, "a", protocol.EnvFirst, "1")
	f.Fuzz(func(t *testing.T, a, av, b, bv, c, cv string) {
		set := map[string]string{}
		for _, kv := range [][2]string{{a, av}, {b, bv}, {c, cv}} {
			if kv[0] == worker.EnvFile || kv[0] == worker.EnvEndpoint && strings.HasPrefix(kv[1], "fds:") {
				// No files of the machine are opened, and no descriptors of this process taken.
				if fds, err := parseDescriptors(strings.TrimPrefix(kv[1], "fds:")); err == nil &&
					(len(fds) < 3 || fds[0] < 3) {
					t.Fatalf("%v", fds)
				}
				return
			}
			set[kv[0]] = kv[1]
		}
		e, err := readEnvironment(t.Context(), set, func(string) string { return "7" }, nil)
		if err != nil {
			return
		}
		if !protocol.IsName(e.Name) || !protocol.IsName(e.Kind) || e.Slots < 0 || e.Slots > protocol.MaxSlots ||
			protocol.CheckEndpoint(e.Endpoint.Addresses, e.Endpoint.Pin, e.Endpoint.Token) != nil {
			t.Fatalf("%+v", e)
		}
	})
}
