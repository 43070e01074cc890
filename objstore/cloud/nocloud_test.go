//go:build nocloud

package cloud

import (
	"errors"
	"testing"

	"leat/objstore"
)

func TestWithoutClients(t *testing.T) {
	for scheme := range Drivers() {
		b, err := objstore.Open(t.Context(), scheme+"://bucket/prefix", &objstore.Options{Drivers: Drivers()})
		if e := (*objstore.Error)(nil); b != nil || !errors.Is(err, errLeftOut) || !errors.As(err, &e) ||
			e.URL != scheme+"://bucket" {
			t.Errorf("%s: %v, %v", scheme, b, err)
		}
	}
}
