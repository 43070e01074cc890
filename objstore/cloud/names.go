package cloud

import (
	"regexp"
	"strconv"
	"strings"
)

// escaped is how gocloud writes a character of a name that it takes for one that the store does not know.
var escaped = regexp.MustCompile(`__0x([0-9a-fA-F]+)__`)

// unescape undoes gocloud's escapes. The stores do know those characters, and the names that others have given are to be found.
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
