package exec

import (
	"strings"
	"testing"

	"leat/block"
	"leat/worker"
)

func TestRepeatedFailureOfSetup(t *testing.T) {
	r := &failures{blocks: block.Plan{Width: 64, Height: 64, WindowWidth: 16, WindowHeight: 16}}
	failure := func(block int, message string) *worker.Failure {
		return &worker.Failure{Worker: "subprocess-0", Block: block, Message: message, Code: stageSetup}
	}
	first := failure(1, "setting up worker 1: no model")
	err := r.blockErrors(&worker.RunError{Cause: first, After: []error{failure(0, first.Message)}})
	if strings.Contains(err.Error(), "block ") || strings.Contains(err.Error(), "after that") {
		t.Errorf("the error is %v", err)
	}
	err = r.blockErrors(&worker.RunError{Cause: first, After: []error{failure(0, "out of memory")}})
	if !strings.Contains(err.Error(), "after that: ") || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("the error is %v", err)
	}
}
