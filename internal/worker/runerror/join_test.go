package runerror

import (
	"errors"
	"testing"

	"leat/worker"
)

func TestJoinKeepsTheCause(t *testing.T) {
	t.Parallel()
	cause, later := errors.New("cause"), errors.New("later")
	if err := Join(nil); err != nil {
		t.Error(err)
	}
	if err := Join(cause, nil); err != cause {
		t.Error(err)
	}
	if err := Join(nil, nil, later); !errors.Is(err, later) || errors.As(err, new(*worker.RunError)) {
		t.Error(err)
	}
	err := Join(cause, nil, later)
	var run *worker.RunError
	if !errors.As(err, &run) || run.Cause != cause || len(run.After) != 1 || run.After[0] != later {
		t.Errorf("%#v", err)
	}
	if !errors.Is(err, cause) || errors.Is(err, later) {
		t.Error("errors.Is finds the cause alone")
	}
}
