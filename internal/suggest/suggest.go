// Package suggest finds the name that a misspelt one was meant to be.
package suggest

import "strings"

// Closest returns the name of names that differs least from name: in upper and lower case, in - and
// _, or in up to a third of its characters, at least one. It returns "" if there is none, and the
// first of several that are equally close.
func Closest(name string, names []string) string {
	best, least := "", max(1, len(name)/3)+1
	for _, n := range names {
		if d := Distance(normalize(name), normalize(n)); d < least {
			best, least = n, d
		}
	}
	return best
}

func normalize(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// Distance returns the number of characters to insert, remove, replace or swap with their neighbour
// to get from a to b (optimal string alignment).
func Distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	var before, last []int
	row := make([]int, len(t)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(s); i++ {
		before, last, row = last, row, make([]int, len(t)+1)
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(t)]
}
