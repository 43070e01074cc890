package main

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"leat/internal/units"
)

// lostMessage is the log message of a coordinator for a lost worker.
const lostMessage = "worker lost"

// maxLostBlocks bounds the blocks that are named.
const maxLostBlocks = 4

// lostText says what happened to a lost worker, and what becomes of its blocks.
func lostText(r slog.Record) string {
	var name, host, why string
	var blocks []int
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "worker":
			name = a.Value.String()
		case "host":
			host = a.Value.String()
		case "why":
			why = a.Value.String()
		case "blocks":
			blocks, _ = a.Value.Any().([]int)
		}
		return true
	})
	after := "it had no block"
	if len(blocks) > 0 {
		var numbers []string
		for _, b := range blocks[:min(len(blocks), maxLostBlocks)] {
			numbers = append(numbers, strconv.Itoa(b))
		}
		after = units.Plural(len(blocks), "block", "blocks") + " (" + strings.Join(numbers, ", ")
		if len(blocks) > maxLostBlocks {
			after += ", ..."
		}
		after += ") will be computed again"
	}
	return fmt.Sprintf("worker %s on %s was lost (%s): %s; nothing needs to be done unless an error follows", name, host, why, after)
}
