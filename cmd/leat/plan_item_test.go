package main

import (
	"testing"
	"time"
)

func TestItemText(t *testing.T) {
	when := time.Date(2024, 5, 6, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		item int
		when time.Time
		want string
	}{{0, time.Time{}, ""}, {3, time.Time{}, "item 3 of the list"}, {0, when, "2024-05-06T00:00:00Z"},
		{3, when, "item 3 of the list, 2024-05-06T00:00:00Z"}} {
		if got := itemText(c.item, c.when); got != c.want {
			t.Errorf("item %d, time %v: %q, expected %q", c.item, c.when, got, c.want)
		}
	}
}
