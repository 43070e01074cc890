package proctest

import (
	"os"
	"testing"
)

// Rounds returns how often a test repeats what it does at random: few times with -short, all of
// them in make test-all, which sets LEAT_TEST_DIST, and some otherwise.
func Rounds(few, some, all int) int {
	switch {
	case testing.Short():
		return few
	case os.Getenv("LEAT_TEST_DIST") == "":
		return some
	}
	return all
}
