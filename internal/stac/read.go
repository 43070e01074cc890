package stac

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"leat/internal/storeurl"
)

const (
	// MaxBytes is the maximum size of a document: an item has some 10 to 50 KiB, so that it holds
	// thousands.
	MaxBytes = 256 << 20
	// maxItems is the maximum number of items of a document.
	maxItems = 100_000
)

// Document is what leat reads of a STAC Item or of an ItemCollection, such as the answer of a STAC
// API.
type Document struct {
	Items []ItemRef // ordered by time, and by ID where the times are equal
	List  bool      // an ItemCollection, even if it has one item
}

// ItemRef is an item that was read.
type ItemRef struct {
	ID string
	// Time is the item's datetime, or its start_datetime where that is null.
	Time   time.Time
	Assets map[string]AssetRef // by key

	collection string
	longitude  float64 // of the centre of the bounding box; NaN without one
}

// AssetRef is an asset of an item that was read.
type AssetRef struct {
	Href string

	name       string            // of Href, by the extension alternate-assets; "" without one
	alternates map[string]string // hrefs of the alternates, by name
}

// Main is the name of an asset's own href, where AlternateHref takes names.
const Main = "main"

// AlternateHref returns the first of the hrefs that these names stand for: alternates of the
// extension alternate-assets, or Main. ok is false if there is none.
func (a *AssetRef) AlternateHref(names []string) (href string, ok bool) {
	for _, name := range names {
		if href, ok = a.alternates[name]; ok {
			return href, true
		}
		if name == Main || name == a.name {
			return a.Href, true
		}
	}
	return "", false
}

// Alternates returns the names that AlternateHref takes, in order, Main first.
func (a *AssetRef) Alternates() []string {
	names := make([]string, 0, len(a.alternates)+1)
	for name := range a.alternates {
		if name != Main {
			names = append(names, name)
		}
	}
	if _, ok := a.alternates[a.name]; a.name != "" && a.name != Main && !ok {
		names = append(names, a.name)
	}
	slices.Sort(names)
	return append([]string{Main}, names...)
}

// ErrIncomplete is returned for the answer of an API that is one page of several.
var ErrIncomplete = errors.New("the answer is one page of several")

// ErrEmpty is returned for a search that found nothing.
var ErrEmpty = errors.New("no item was found")

type readDoc struct {
	Type     string            `json:"type"`
	Features []json.RawMessage `json:"features"`
	Links    []struct {
		Rel string `json:"rel"`
	} `json:"links"`
	NumberMatched *float64 `json:"numberMatched"`
	Context       *struct {
		Matched *float64 `json:"matched"`
	} `json:"context"`
}

type readItem struct {
	Type       string    `json:"type"`
	ID         string    `json:"id"`
	Collection string    `json:"collection"`
	BBox       []float64 `json:"bbox"`
	Properties struct {
		Datetime *string `json:"datetime"`
		Start    *string `json:"start_datetime"`
	} `json:"properties"`
	Assets map[string]readAsset `json:"assets"`
}

type readAsset struct {
	Href string `json:"href"`
	// Of the extension alternate-assets. Not all that have fields of these names follow it.
	Alternate json.RawMessage `json:"alternate"`
	Name      json.RawMessage `json:"alternate:name"`
}

// ref returns what leat uses of an asset. Alternates without a name or an href are left out.
func (a *readAsset) ref() AssetRef {
	r := AssetRef{Href: a.Href}
	_ = json.Unmarshal(a.Name, &r.name)
	var alternates map[string]json.RawMessage
	_ = json.Unmarshal(a.Alternate, &alternates)
	for name, text := range alternates {
		var one struct {
			Href string `json:"href"`
		}
		if name == "" || json.Unmarshal(text, &one) != nil || one.Href == "" {
			continue
		}
		if r.alternates == nil {
			r.alternates = map[string]string{}
		}
		r.alternates[name] = one.Href
	}
	return r
}

// Parse reads an Item or an ItemCollection. The error is ErrEmpty if a collection has no items, and
// ErrIncomplete if a link leads to further ones.
func Parse(text []byte) (*Document, error) {
	var d readDoc
	if err := json.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &d); err != nil {
		return nil, fmt.Errorf("no STAC item or ItemCollection: %w", plainError(err))
	}
	doc := &Document{}
	switch d.Type {
	case "Feature":
		d.Features = []json.RawMessage{text}
	case "FeatureCollection":
		doc.List = true
	case "Collection", "Catalog":
		return nil, fmt.Errorf("a STAC %s, expected an item or an ItemCollection", d.Type)
	default:
		return nil, fmt.Errorf("no STAC item or ItemCollection: its type is %q, expected Feature or FeatureCollection", short(d.Type))
	}
	n := len(d.Features)
	if n > maxItems {
		return nil, fmt.Errorf("%d items, expected at most %d", n, maxItems)
	}
	matched := d.NumberMatched
	if matched == nil && d.Context != nil {
		matched = d.Context.Matched
	}
	if doc.List && matched != nil && *matched > float64(n) {
		return nil, fmt.Errorf("%w: it has %d items of %v", ErrIncomplete, n, *matched)
	}
	for _, l := range d.Links {
		if doc.List && n > 0 && l.Rel == "next" && matched == nil {
			return nil, fmt.Errorf("%w: it has %d items and a link to the next page", ErrIncomplete, n)
		}
	}
	if n == 0 {
		return nil, ErrEmpty
	}
	for i, raw := range d.Features {
		it, err := parseItem(raw)
		if err != nil {
			if doc.List {
				err = fmt.Errorf("item %d: %w", i+1, err)
			}
			return nil, err
		}
		doc.Items = append(doc.Items, it)
	}
	if err := doc.checkIDs(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(doc.Items, func(a, b ItemRef) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID))
	})
	return doc, nil
}

// checkIDs returns an error if two items of one collection have the same id: a page that was saved
// twice would count twice. Items of different collections may have equal ids.
func (d *Document) checkIDs() error {
	type key struct{ collection, id string }
	first := map[key]int{}
	for i, it := range d.Items {
		k := key{it.collection, it.ID}
		if n, again := first[k]; again {
			return fmt.Errorf("the items %d and %d have the same id %q, expected each item once", n+1, i+1, short(it.ID))
		}
		first[k] = i
	}
	return nil
}

func parseItem(text []byte) (it ItemRef, err error) {
	var d readItem
	if err := json.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &d); err != nil {
		return it, fmt.Errorf("no STAC item: %w", plainError(err))
	}
	it = ItemRef{ID: d.ID, collection: d.Collection, Assets: make(map[string]AssetRef, len(d.Assets)),
		longitude: math.NaN()}
	bad := func(format string, args ...any) (ItemRef, error) {
		return it, fmt.Errorf("%q %w", short(d.ID), fmt.Errorf(format, args...))
	}
	switch {
	case d.Type != "Feature":
		return bad("has the type %q, expected Feature", short(d.Type))
	case d.ID == "":
		return it, errors.New("no STAC item: it has no id")
	case len(d.Assets) == 0:
		return bad("has no assets, expected a STAC item")
	}
	when := cmp.Or(d.Properties.Datetime, d.Properties.Start)
	if when == nil {
		return bad("has no datetime")
	}
	if it.Time, err = ParseTime(*when); err != nil {
		return bad("has a wrong datetime: %w", err)
	}
	for key, a := range d.Assets {
		it.Assets[key] = a.ref()
	}
	if n := len(d.BBox); n == 4 || n == 6 {
		west, east := d.BBox[0], d.BBox[n/2]
		if west > east { // across the antimeridian
			east += 360
		}
		if centre := math.Mod((west+east)/2+180, 360) - 180; west >= -180 && east <= 540 {
			it.longitude = centre
		}
	}
	return it, nil
}

// plainError returns the error of a JSON value of the wrong type without names of Go types, and
// other errors as they are.
func plainError(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	expected := "an object"
	switch wrong.Type.Kind() {
	case reflect.String:
		expected = "a string"
	case reflect.Float64:
		expected = "a number of float64"
	case reflect.Slice:
		expected = "an array"
	}
	found := "the value " + short(wrong.Value)
	switch wrong.Value {
	case "array", "object":
		found = "an " + wrong.Value
	case "string", "number":
		found = "a " + wrong.Value
	case "bool":
		found = "true or false"
	}
	if wrong.Field == "" {
		return fmt.Errorf("it is %s, expected %s", found, expected)
	}
	return fmt.Errorf("the field %q has %s, expected %s", short(wrong.Field), found, expected)
}

// short returns a text for a message.
func short(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return s
}

// Keys returns the keys of the assets of any item, in order.
func (d *Document) Keys() []string {
	seen := map[string]bool{}
	for i := range d.Items {
		for key := range d.Items[i].Assets {
			seen[key] = true
		}
	}
	keys := make([]string, 0, len(seen))
	for key := range seen {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Alternates returns the names of the alternates that the asset has in any item, in order, Main
// first.
func (d *Document) Alternates(asset string) []string {
	names := []string{Main}
	for i := range d.Items {
		if a, ok := d.Items[i].Assets[asset]; ok {
			for _, name := range a.Alternates() {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names[1:])
	return names
}

// HasAlternate reports whether the asset has one of these names in any item.
func (d *Document) HasAlternate(asset string, names []string) bool {
	known := d.Alternates(asset)
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(known, name) })
}

// Grouping says which items of a Document become one item of a list.
type Grouping uint8

const (
	ByItem     Grouping = iota
	ByDay               // those of one day in UTC
	BySolarDay          // those of one day at their longitude: UTC and an hour for each 15 degrees, without fractions
)

// Groups returns the numbers of consecutive items that belong together; their sum is that of all
// items.
func (d *Document) Groups(by Grouping) ([]int, error) {
	var groups []int
	var last string
	for i := range d.Items {
		it := &d.Items[i]
		day := fmt.Sprint(i)
		switch by {
		case ByDay:
			day = it.Time.Format(time.DateOnly)
		case BySolarDay:
			if math.IsNaN(it.longitude) {
				return nil, fmt.Errorf("item %q has no bbox, which its solar day needs", short(it.ID))
			}
			day = it.solarDay()
		}
		if i == 0 || day != last {
			groups = append(groups, 0)
		}
		groups[len(groups)-1]++
		last = day
	}
	return groups, nil
}

// SortBySolarDay orders the items by their solar day, so that those of one day are consecutive, and
// within a day by time and ID.
func (d *Document) SortBySolarDay() {
	slices.SortStableFunc(d.Items, func(a, b ItemRef) int { return strings.Compare(a.solarDay(), b.solarDay()) })
}

// solarDay returns the date at the item's longitude, "" without one.
func (it *ItemRef) solarDay() string {
	if math.IsNaN(it.longitude) {
		return ""
	}
	return it.Time.Add(time.Duration(int(it.longitude/15)) * time.Hour).Format(time.DateOnly)
}

// ResolveHref returns the path or URL of an asset of a document, which is itself a path or a URL. A
// document in a store refers to nothing on this machine.
func ResolveHref(document, href string) (string, error) {
	bad := func(format string, args ...any) (string, error) {
		return "", fmt.Errorf("the href %q %w", storeurl.Redact(short(href)), fmt.Errorf(format, args...))
	}
	remote := storeurl.Is(document)
	switch {
	case href == "":
		return bad("is empty, expected a file or a URL")
	case strings.IndexFunc(href, func(r rune) bool { return r < ' ' }) >= 0:
		return bad("has control characters, expected a file or a URL")
	case storeurl.Is(href):
		if remote && strings.HasPrefix(strings.ToLower(href), "file:") {
			return bad("is a file of this machine, which a document in a store can't refer to")
		}
		return href, nil
	case !remote:
		name, err := url.PathUnescape(href)
		if err != nil {
			name = href
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(document), name)
		}
		// GDAL reads more than files by such names.
		if strings.ContainsAny(name, ":<") || strings.HasPrefix(name, "/vsi") {
			if _, err := os.Stat(name); err != nil {
				return bad("is not a file, and none of the URLs that leat reads")
			}
		}
		return name, nil
	}
	scheme, rest, _ := strings.Cut(document, "://")
	if scheme := strings.ToLower(scheme); scheme == "http" || scheme == "https" {
		base, err := url.Parse(document)
		if err != nil {
			return bad("is relative to a wrong URL")
		}
		to, err := base.Parse(href)
		if err != nil || !strings.HasPrefix(to.Scheme, "http") {
			return bad("is not a URL, expected one such as https://host/a.tif")
		}
		return to.String(), nil
	}
	name, err := url.PathUnescape(href)
	if err != nil {
		name = href
	}
	bucket, object, _ := strings.Cut(rest, "/")
	to := path.Join(path.Dir(object), name)
	if strings.HasPrefix(name, "/") || to == ".." || strings.HasPrefix(to, "../") {
		return bad("lies outside of the bucket of the document")
	}
	return scheme + "://" + bucket + "/" + to, nil
}
