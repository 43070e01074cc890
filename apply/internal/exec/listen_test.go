package exec

import (
	"context"
	"strings"
	"testing"

	"leat/internal/worker/coordinator"
)

func TestListenAtForeignAddress(t *testing.T) {
	c, err := coordinator.New(coordinator.Options{Blocks: 1, Workers: 1,
		Accept: func(context.Context, *coordinator.Result) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, at := range []string{"203.0.113.9", "203.0.113.9:0", "[2001:db8::9]:0"} { // addresses for documentation
		_, err := listen(c, at)
		if err == nil || !strings.Contains(err.Error(), at+" can't be listened at for workers (--listen): bind: cannot assign requested address: name an address of this machine") {
			t.Errorf("%s: %v", at, err)
		}
	}
}
