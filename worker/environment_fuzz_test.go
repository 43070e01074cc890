package worker

import (
	"strings"
	"testing"
)

func FuzzEnvironment(f *testing.F) {
	f.Add(EnvInvitation, "fds:3,4,5", EnvName, "a-1", EnvSlots, "2")
	f.Add(EnvInvitation, testText(f, testEndpoint()), EnvKind, "a", EnvIndexFrom, "I")
	f.Add(EnvSecret, "ssm:x", EnvName, "a", EnvFirst, "1")
	f.Fuzz(func(t *testing.T, a, av, b, bv, c, cv string) {
		set := map[string]string{}
		for _, kv := range [][2]string{{a, av}, {b, bv}, {c, cv}} {
			if kv[0] == EnvFile || kv[0] == EnvInvitation && strings.HasPrefix(kv[1], "fds:") {
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
		if !isName(e.Name) || !isName(e.Kind) || e.Slots < 0 || e.Slots > maxSlots || checkEndpoint(e.Endpoint.Addresses, e.Endpoint.Pin, e.Endpoint.Token) != nil {
			t.Fatalf("%+v", e)
		}
	})
}
