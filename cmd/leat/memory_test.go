package main

import (
	"math"
	"runtime/debug"
	"testing"

	"leat/apply/outcome"
)

func TestMemoryLimit(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	const mib = 1 << 20
	for _, c := range []struct {
		plan          outcome.Plan
		before, limit int64
	}{
		{outcome.Plan{BudgetBytes: 100 * mib, MemoryBytes: 60 * mib}, math.MaxInt64, 66 * mib},
		{outcome.Plan{BudgetBytes: 200 * mib, MemoryBytes: 150 * mib, ForeignBytes: 90 * mib}, math.MaxInt64, 76 * mib},
		{outcome.Plan{BudgetBytes: 30 * mib, MemoryBytes: 30 * mib}, math.MaxInt64, 16 * mib},
		// less is asked for
		{outcome.Plan{BudgetBytes: 100 * mib, MemoryBytes: 60 * mib}, 50 * mib, 50 * mib},
		// others have a part of it
		{outcome.Plan{BudgetBytes: 100 * mib, MemoryBytes: 60 * mib, Kind: "subprocess"}, math.MaxInt64, math.MaxInt64},
	} {
		debug.SetMemoryLimit(c.before)
		limitHeap(&c.plan)
		if got := debug.SetMemoryLimit(-1); got != c.limit {
			t.Errorf("%+v: the limit is %d MiB", c, got/mib)
		}
	}
}
