package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"leat/internal/storeurl"
	"leat/internal/terminal"
	"leat/objstore"
)

// outputNames are the files for the objects, in a directory or the only one.
func outputNames(urls []string, output string, overwrite bool) ([]string, error) {
	st, err := os.Stat(output)
	inDirectory := err == nil && st.IsDir()
	switch {
	case !inDirectory && strings.HasSuffix(output, "/"):
		return nil, fmt.Errorf("-o %s: there is no such directory: make it first", output)
	case !inDirectory && len(urls) > 1:
		return nil, usagef("-o %s: several objects need a directory, which must exist", output)
	case !inDirectory:
		return []string{output}, free(output, overwrite)
	}
	names := make([]string, len(urls))
	whose := map[string]int{}
	var errs []error
	for i, u := range urls {
		base := baseName(u)
		if base == "" {
			errs = append(errs, usagef("%s has no name that a file could have: get it alone, with -o FILE", shown(u)))
			continue
		}
		if j, ok := whose[base]; ok {
			errs = append(errs, usagef("%s and %s would both become %s: get them into different directories",
				shown(urls[j]), shown(u), terminal.Name(filepath.Join(output, base))))
			continue
		}
		whose[base] = i
		names[i] = filepath.Join(output, base)
		if err := free(names[i], overwrite); err != nil {
			errs = append(errs, err)
		}
	}
	return names, errors.Join(errs...)
}

// baseName is the last part of an object's name, "" where a file can't be called so.
func baseName(u string) string {
	_, name, err := objstore.Split(u)
	if err != nil {
		return ""
	}
	if scheme, _, _ := strings.Cut(strings.ToLower(u), "://"); scheme == "http" || scheme == "https" {
		name, _, _ = strings.Cut(name, "?")
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			name = name[i+1:]
		}
		if name, err = url.PathUnescape(name); err != nil {
			return ""
		}
		if strings.Contains(name, "/") {
			return ""
		}
	} else {
		if scheme == "s3" {
			name, _, _ = storeurl.CutVersion(name)
		}
		name = path.Base(name)
	}
	if name == "." || name == ".." || name == "/" || len(name) > 255 || strings.ContainsRune(name, 0) {
		return ""
	}
	return name
}
