package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"leat/internal/stac"
	"leat/internal/storeurl"
	"leat/stores"
)

// cutAsset splits DOCUMENT#ASSET: an asset of the items of a STAC document, which is a file whose
// name ends in .json or .geojson, or anything on a web server.
func cutAsset(name string) (document, asset string, ok bool) {
	at := strings.LastIndexByte(name, '#')
	if at <= 0 {
		return "", "", false
	}
	document, asset = name[:at], name[at+1:]
	lower := strings.ToLower(document)
	json := strings.HasSuffix(lower, ".json") || strings.HasSuffix(lower, ".geojson")
	switch web := strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://"); {
	case web:
		return document, asset, true
	case !json:
		return "", "", false
	case storeurl.Is(name):
		return document, asset, true
	}
	_, err := os.Stat(name)
	return document, asset, err != nil
}

// assets returns the files of an asset of all items of a document.
func (f *inputFlags) assets(ctx context.Context, in *stores.Stores, document, asset string) (found inputFiles,
	err error) {
	label := storeurl.Redact(document)
	bad := func(format string, args ...any) (inputFiles, error) {
		return inputFiles{}, fileError{fmt.Errorf("%s: %w", label, fmt.Errorf(format, args...))}
	}
	d := f.documents[document]
	if d == nil {
		text, err := in.ReadFile(ctx, document, stac.MaxBytes)
		if err != nil {
			return inputFiles{}, fileError{err}
		}
		d, err = stac.Parse(text)
		switch {
		case errors.Is(err, stac.ErrIncomplete):
			return inputFiles{}, fileError{hintedError{fmt.Errorf("%s: %w, expected all items", label, err),
				"ask for more items in one answer (limit=1000), or save all pages as one ItemCollection"}}
		case errors.Is(err, stac.ErrEmpty):
			return bad("%w, expected at least one", err)
		case err != nil:
			return bad("%w", err)
		}
		if f.by == stac.BySolarDay {
			d.SortBySolarDay()
		}
		if f.documents == nil {
			f.documents = map[string]*stac.Document{}
		}
		f.documents[document] = d
	}
	keys := d.Keys()
	if asset == "" {
		return inputFiles{}, fmt.Errorf("%s: name one of the assets after #: %s", label, shorten(strings.Join(keys, ", ")))
	}
	known := false
	for _, key := range keys {
		known = known || key == asset
	}
	if !known {
		return inputFiles{}, fmt.Errorf("%s: %w", label, unknownName("asset", asset, keys))
	}
	f.addAlternates(d.Alternates(asset))
	if len(f.alternates) > 0 && !d.HasAlternate(asset, f.alternates) {
		return inputFiles{}, fmt.Errorf("%s: asset %q: %w", label, asset, noAlternate(f.alternates, d.Alternates(asset)))
	}
	for _, it := range d.Items {
		a, ok := it.Assets[asset]
		if !ok {
			return bad("item %q has no asset %q, expected that all items have it", it.ID, asset)
		}
		href := a.Href
		if len(f.alternates) > 0 {
			if href, ok = a.AlternateHref(f.alternates); !ok {
				return bad("item %q, asset %q: %w", it.ID, asset, noAlternate(f.alternates, a.Alternates()))
			}
		}
		file, err := stac.ResolveHref(document, href)
		if err == nil {
			file, err = localName(file)
		}
		if err == nil && storeurl.Is(file) {
			err = checkScheme(file)
		}
		if err != nil {
			return bad("item %q, asset %q: %w", it.ID, asset, err)
		}
		found.files = append(found.files, file)
		found.times = append(found.times, it.Time)
	}
	found.list = d.List
	if f.by != stac.ByItem && d.List {
		if found.groups, err = d.Groups(f.by); err != nil {
			return bad("%w", err)
		}
	}
	return found, nil
}

// noAlternate is the error for an asset that has none of the alternates that are wanted.
func noAlternate(wanted, known []string) error {
	if len(wanted) == 1 {
		return unknownName("alternate", wanted[0], known)
	}
	return fmt.Errorf("there is no alternate %s; there is %s", orList(wanted), strings.Join(known, ", "))
}

// addAlternates notes names of alternates that assets have.
func (f *inputFlags) addAlternates(names []string) {
	for _, name := range names {
		if !slices.Contains(f.knownAlternates, name) {
			f.knownAlternates = append(f.knownAlternates, name)
		}
	}
}

// checkAlternates returns an error for a name of --alternate that no asset of the inputs has: it
// would have no effect.
func (f *inputFlags) checkAlternates() error {
	for _, name := range f.alternates {
		if !slices.Contains(f.knownAlternates, name) && name != stac.Main {
			slices.Sort(f.knownAlternates)
			return fmt.Errorf("--alternate %s: in the STAC items, %w", shown(name), unknownName("alternate", name, f.knownAlternates))
		}
	}
	return nil
}
