package exec

import (
	"context"
	"errors"
	"testing"

	"leat/apply/outcome"
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
		var field *outcome.FieldError
		if err == nil || err.Error() != "listening at "+at+" for workers: bind: cannot assign requested address" ||
			!errors.As(err, &field) || field.Field != "Concurrency.Listen" {
			t.Errorf("%s: %v", at, err)
		}
	}
}
