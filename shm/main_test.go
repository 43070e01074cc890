package shm

import (
	"testing"

	"go.uber.org/goleak"

	"leat/internal/proctest"
)

// children are what tests run in processes of their own.
var children = map[string]proctest.Func{}

func TestMain(m *testing.M) {
	proctest.Main(children)
	goleak.VerifyTestMain(m)
}
