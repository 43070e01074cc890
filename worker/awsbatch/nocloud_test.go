//go:build nocloud

package awsbatch

import (
	"errors"
	"testing"

	"leat/worker"
)

func TestWithoutClients(t *testing.T) {
	k := New(&Options{Queue: "q", Definition: "d", Secret: "ssm:s"})
	if err := k.Check(t.Context()); !errors.Is(err, errLeftOut) {
		t.Error(err)
	}
	if f, err := k.Start(t.Context(), worker.StartOptions{}); f != nil || !errors.Is(err, errLeftOut) {
		t.Errorf("%v, %v", f, err)
	}
	for store, fetch := range Fetch() {
		if _, err := fetch(t.Context(), "s"); !errors.Is(err, errLeftOut) {
			t.Errorf("%s: %v", store, err)
		}
	}
}
