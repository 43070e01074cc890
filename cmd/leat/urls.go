package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"leat/internal/lazyregexp"
	"leat/internal/storeurl"
	"leat/internal/terminal"
	"leat/stores"
)

// shown is what a person gave, without what may be secret, for an error.
func shown(text string) string {
	text = storeurl.Redact(text)
	if !storeurl.Is(text) {
		text, _, _ = strings.Cut(text, "?")
		text = text[strings.LastIndex(text, "@")+1:]
	}
	if r := []rune(text); len(r) > 200 {
		text = string(r[:200]) + "…"
	}
	return terminal.Name(text)
}

// mentions reports whether a text has a URL in it, which may lack its query.
func mentions(text, url string) bool {
	url, _, _ = strings.Cut(url, "?")
	return strings.Contains(text, url) || strings.Contains(text, terminal.Text(url))
}

// withURL returns a text about an object that names it.
func withURL(url, text string) string {
	if mentions(text, url) {
		return text
	}
	return terminal.Name(url) + ": " + text
}

// errStream is returned for - in place of a raster.
var errStream = errors.New("- is not a raster: rasters are read and written in pieces, which standard input and output can't be; expected a file or a URL (a file of that name is ./-)")

// oneSlash matches the beginning of a URL that lacks a slash.
var oneSlash = lazyregexp.New(`^(s3|gs|azblob|https?|file):/[^/]`)

// localName is the path of a file: URL, and everything else as it is.
func localName(path string) (string, error) {
	if path == "-" {
		return "", usageError{errStream}
	}
	if m := oneSlash.FindStringSubmatch(path); m != nil {
		if _, err := os.Lstat(path); err != nil {
			scheme := m[1] + ":/"
			return "", usageError{hintedError{fmt.Errorf("%s: there is no such file, and a URL begins with %s/", shown(path), scheme),
				"did you mean " + scheme + shown(path[len(scheme)-1:]) + "?"}}
		}
	}
	local, err := stores.LocalPath(path)
	if err != nil {
		return "", err
	}
	if local == "" {
		return path, nil
	}
	return local, nil
}

// redact hides secrets of URLs in a text for people.
func redact(text string) string { return storeurl.RedactURLs(text) }
