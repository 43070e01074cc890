// Package lazyregexp has regular expressions that are compiled when they are first used. So a
// package variable that holds one costs nothing in programs that never use it. The idea is from
// Go's internal/lazyregexp.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression that its first use compiles. It is safe for concurrent use.
type Regexp struct{ compiled func() *regexp.Regexp }

// New returns the expression of a text. An invalid one panics when it is used.
func New(text string) *Regexp {
	return &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
}

// MatchString is that of [regexp.Regexp].
func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

// FindStringSubmatch is that of [regexp.Regexp].
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

// FindStringIndex is that of [regexp.Regexp].
func (r *Regexp) FindStringIndex(s string) []int { return r.compiled().FindStringIndex(s) }

// ReplaceAllStringFunc is that of [regexp.Regexp].
func (r *Regexp) ReplaceAllStringFunc(s string, f func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(s, f)
}
