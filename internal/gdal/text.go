package gdal

import (
	"fmt"
	"strings"
	"unsafe"
)

// checkText returns an error for texts that C would truncate.
func checkText(path, what string, texts ...string) error {
	for _, s := range texts {
		if strings.ContainsRune(s, 0) {
			return fmt.Errorf("%q: the %s %q contains a NUL character", path, what, s)
		}
	}
	return nil
}

// cStrings returns texts, which contain no NUL, as a null-terminated C list; nil for none. It is Go
// memory: GDAL copies such lists, and the pointer passed keeps it alive during a call.
func cStrings(texts []string) unsafe.Pointer {
	if len(texts) == 0 {
		return nil
	}
	list := make([]*byte, len(texts)+1)
	for i, s := range texts {
		list[i] = cString(s)
	}
	return unsafe.Pointer(&list[0])
}

// cString returns a text with a trailing NUL.
func cString(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

// goString copies a C string; "" for null.
func goString(p unsafe.Pointer) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}

// goStrings copies a C list of strings.
func goStrings(p unsafe.Pointer) []string {
	if p == nil {
		return nil
	}
	var out []string
	for i := uintptr(0); ; i++ {
		s := *(*unsafe.Pointer)(unsafe.Add(p, i*unsafe.Sizeof(p)))
		if s == nil {
			return out
		}
		out = append(out, goString(s))
	}
}

// items splits texts KEY=VALUE; nil for none.
func items(texts []string) map[string]string {
	var m map[string]string
	for _, s := range texts {
		if k, v, ok := strings.Cut(s, "="); ok {
			if m == nil {
				m = map[string]string{}
			}
			m[k] = v
		}
	}
	return m
}
