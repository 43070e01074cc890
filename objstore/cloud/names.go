//go:build !nocloud

package cloud

import (
	"strconv"
	"strings"

	"leat/internal/lazyregexp"
)

// escaped matches gocloud's escape of a character that it assumes the store rejects.
var escaped = lazyregexp.New(`__0x([0-9a-fA-F]+)__`)

// unescape undoes gocloud's escapes. Stores accept those characters, and objects that other
// programs named so must be found.
func unescape(name string) string {
	if !strings.Contains(name, "__0x") {
		return name
	}
	return escaped.ReplaceAllStringFunc(name, func(e string) string {
		c, err := strconv.ParseUint(e[len("__0x"):len(e)-len("__")], 16, 21)
		if err != nil {
			return e
		}
		return string(rune(c))
	})
}
