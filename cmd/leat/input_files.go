package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"leat/internal/filelist"
	"leat/internal/storeurl"
	"leat/objstore"
	"leat/stores"
)

// inputFiles are the files that a FILE of -i stands for.
type inputFiles struct {
	files  []string
	list   bool        // a list even if it is one file
	times  []time.Time // of the files; nil if they say none
	groups []int       // numbers of files that make up an item of the list; nil: each is one
}

// expand returns the files that the FILE of an option stands for: itself, those that match it
// as a pattern, those that @LIST lists, or the assets DOCUMENT#ASSET of STAC items.
func (f *inputFlags) expand(ctx context.Context, in *stores.Stores, option string, file namedFile) (inputFiles, error) {
	name, text := file.path, shown(file.text)
	if document, asset, ok := cutAsset(name); ok {
		found, err := f.assets(ctx, in, document, asset)
		if err != nil {
			return found, fmt.Errorf("%s %s: %w", option, file.name, err)
		}
		return found, nil
	}
	if list, ok := strings.CutPrefix(name, "@"); ok {
		files, err := readFileList(ctx, in, list)
		if err != nil {
			return inputFiles{}, fileError{fmt.Errorf("%s %s: %w", option, file.name, err)}
		}
		return inputFiles{files: files, list: true}, nil
	}
	var found []string
	var err error
	switch {
	case !filelist.IsPattern(name):
		return inputFiles{files: []string{name}}, nil
	case storeurl.Is(name):
		if web := strings.ToLower(name); strings.HasPrefix(web, "http://") || strings.HasPrefix(web, "https://") {
			if !strings.ContainsAny(name, "*[") { // a query is not a pattern
				return inputFiles{files: []string{name}}, nil
			}
			return inputFiles{}, hintedError{fmt.Errorf("%s %s: a web server can't list its files, expected URLs without a pattern", option, text),
				"give each URL by an option of its own, or a file that lists them: @list.txt"}
		}
		if !strings.ContainsAny(name, "*[") && strings.Contains(name, "?") {
			// The name of an object, or a pattern: objects with ? in their names are rare, but were
			// taken as they are before there were patterns.
			if exists, err := in.Exists(ctx, name); err == nil && exists {
				return inputFiles{files: []string{name}}, nil
			}
		}
		found, err = in.Glob(ctx, name)
	default:
		if _, serr := os.Stat(name); serr == nil {
			return inputFiles{files: []string{name}}, nil
		}
		if found, err = filepath.Glob(name); err != nil {
			err = errors.New("the pattern has a [ without its ]")
		}
		filelist.Sort(found)
	}
	switch {
	case errors.As(err, new(*objstore.Error)):
		return inputFiles{}, fileError{fmt.Errorf("%s %s: %w", option, text, err)}
	case err != nil:
		return inputFiles{}, fmt.Errorf("%s %s: %w", option, text, err)
	case len(found) == 0 && storeurl.Is(name):
		return inputFiles{}, fileError{fmt.Errorf("%s %s: no object matches the pattern", option, text)}
	case len(found) == 0:
		return inputFiles{}, fileError{fmt.Errorf("%s %s: no file matches the pattern", option, text)}
	}
	return inputFiles{files: found, list: true}, nil
}

// readFileList returns the files that a text file, or an object, lists.
func readFileList(ctx context.Context, in *stores.Stores, list string) ([]string, error) {
	list, err := localName(list)
	if err != nil {
		return nil, err
	}
	text, err := in.ReadFile(ctx, list, filelist.MaxBytes)
	if err != nil {
		return nil, err
	}
	files, err := filelist.Parse(list, text)
	if err != nil {
		return nil, err
	}
	for i, f := range files {
		if files[i], err = localName(f); err == nil && storeurl.Is(files[i]) {
			err = checkScheme(files[i])
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", storeurl.Redact(list), err)
		}
	}
	return files, nil
}
