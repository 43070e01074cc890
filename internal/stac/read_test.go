package stac

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// feature returns an item's JSON.
func feature(id, datetime, bbox string, keys ...string) string {
	var assets []string
	for _, k := range keys {
		assets = append(assets, fmt.Sprintf(`%q:{"href":"%s_%s.tif","extra":[1,{"a":null}]}`, k, id, k))
	}
	return fmt.Sprintf(`{"type":"Feature","stac_version":"1.0.0","id":%q,"bbox":%s,"geometry":null,"properties":{"datetime":%s},"assets":{%s}}`,
		id, bbox, datetime, strings.Join(assets, ","))
}

func collection(more string, features ...string) string {
	return `{"type":"FeatureCollection"` + more + `,"features":[` + strings.Join(features, ",") + `]}`
}

func TestItemsAreOrderedByTimeAndID(t *testing.T) {
	d, err := Parse([]byte(collection(`,"numberMatched":4,"links":[{"rel":"next"}]`,
		feature("c", `"2024-06-01T10:00:00Z"`, "[1,2,3,4]", "B04"),
		feature("b", `"2024-06-01T12:00:00+02:00"`, "null", "B04", "B08"),
		feature("z", `null,"start_datetime":"2023-01-01T00:00:00Z"`, "[1,2,3,4]", "B04"),
		feature("a", `"2024-06-01T10:00:00.5Z"`, "[1,2,3,4]", "B04"))))
	if err != nil || !d.List {
		t.Fatal(d, err)
	}
	var ids []string
	for _, it := range d.Items {
		ids = append(ids, it.ID)
	}
	if !slices.Equal(ids, []string{"z", "b", "c", "a"}) || !slices.Equal(d.Keys(), []string{"B04", "B08"}) {
		t.Errorf("items %q with %q", ids, d.Keys())
	}
	if d, err := Parse([]byte(feature("a", `"2024-06-01"`, "null", "B04"))); err != nil || d.List || len(d.Items) != 1 {
		t.Errorf("an item: %+v, %v", d, err)
	}
}

func TestGroupsOfDays(t *testing.T) {
	fiji, west := "[178,-18,-178,-16]", "[-170,-18,-169,-16]"
	d, err := Parse([]byte(collection("",
		feature("a", `"2024-06-01T22:30:00Z"`, fiji, "v"), // centre 180, as odd as it is -180
		feature("b", `"2024-06-01T09:00:00Z"`, west, "v"), // May 31 there
		feature("c", `"2024-06-01T12:30:00Z"`, west, "v"),
		feature("d", `"2024-06-02T01:00:00Z"`, west, "v"))))
	if err != nil {
		t.Fatal(err)
	}
	for by, want := range map[Grouping][]int{ByItem: {1, 1, 1, 1}, ByDay: {3, 1}} {
		if got, err := d.Groups(by); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d: %v, %v, expected %v", by, got, err, want)
		}
	}
	d.SortBySolarDay()
	// b is at 22:00 of May 31, c at 01:30 and a at 10:30 of June 1 (-12 hours), d at 14:00 of it.
	if got, err := d.Groups(BySolarDay); err != nil || !slices.Equal(got, []int{1, 3}) {
		t.Errorf("%v, %v, expected 1 and 3", got, err)
	}
	d.Items[0].longitude = nan
	if _, err := d.Groups(BySolarDay); err == nil || !strings.Contains(err.Error(), `item "b" has no bbox`) {
		t.Errorf("%v, expected that b has no bbox", err)
	}
}

var nan = func() float64 { var zero float64; return zero / zero }()

func TestWrongDocuments(t *testing.T) {
	good := feature("a", `"2024-06-01"`, "null", "B04")
	for _, c := range []struct {
		text, want string
		is         error
	}{
		{"", "no STAC item or ItemCollection", nil},
		{"[]", "no STAC item or ItemCollection: it is an array, expected an object", nil},
		{`{"type":3}`, `the field "type" has a number, expected a string`, nil},
		{`{"type":"FeatureCollection","features":{}}`, `the field "features" has an object, expected an array`, nil},
		{`{"type":"Feature","bbox":["a"]}`, "has a string, expected a number of float64", nil},
		{`{"type":"Feature","bbox":[1e999]}`, "has the value number 1e999, expected a number of float64", nil},
		{`{"type":"Feature","assets":true}`, `the field "assets" has true or false, expected an object`, nil},
		{`{"type":"Collection"}`, "a STAC Collection, expected an item", nil},
		{`{"type":"Polygon"}`, `its type is "Polygon"`, nil},
		{collection(""), "", ErrEmpty},
		{collection(`,"numberMatched":0,"links":[{"rel":"next"}]`), "", ErrEmpty},
		{collection(`,"links":[{"rel":"self"},{"rel":"next"}]`, good), "1 items and a link", ErrIncomplete},
		{collection(`,"context":{"matched":7}`, good), "1 items of 7", ErrIncomplete},
		{collection("", good, "3"), "item 2: no STAC item", nil},
		{collection("", `{"type":"Feature","id":"x","properties":{}}`), `item 1: "x" has no assets`, nil},
		{feature("a", `"yesterday"`, "null", "B04"), `"a" has a wrong datetime`, nil},
		{feature("a", "null", "null", "B04"), `"a" has no datetime`, nil},
		{feature("", "null", "null", "B04"), "it has no id", nil},
		{strings.Repeat(`{"features":[`, 20000), "", nil},
	} {
		_, err := Parse([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%.60s: %v, expected %q", c.text, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "Go ") {
			t.Errorf("%.60s: %v", c.text, err)
		}
	}
}

func TestAlternateHrefs(t *testing.T) {
	d, err := Parse([]byte(`{"type": "Feature", "id": "a", "properties": {"datetime": "2024-06-01"}, "assets": {
		"both": {"href": "h", "alternate:name": "web", "alternate": {"s3": {"href": "s3://b/h"}, "local": {"href": "/h", "title": 1},
			"none": {}, "wrong": 5, "empty": {"href": ""},
			"": {"href": "nameless"}}},
		"main": {"href": "h", "alternate": {"main": {"href": "m"}}},
		"plain": {"href": "h"}, "wrong": {"href": "h", "alternate": ["s3"], "alternate:name": 7}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		asset, names, want string // want "" for none
	}{
		{"both", "s3", "s3://b/h"}, {"both", "local s3", "/h"}, {"both", "gs s3 main", "s3://b/h"}, {"both", "main s3", "h"},
		{"both", "web", "h"}, {"both", "gs", ""}, {"both", "none wrong empty", ""}, {"main", "main", "m"}, {"plain", "s3", ""},
		{"plain", "s3 main", "h"}, {"plain", "", ""}, {"wrong", "s3 7", ""}, {"wrong", "main", "h"},
	} {
		asset := d.Items[0].Assets[c.asset]
		if got, ok := asset.AlternateHref(strings.Fields(c.names)); got != c.want || ok != (c.want != "") {
			t.Errorf("%s of %s: %q, %v, expected %q", c.names, c.asset, got, ok, c.want)
		}
	}
	for key, want := range map[string]string{"both": "main local s3 web", "main": "main", "plain": "main", "wrong": "main"} {
		asset := d.Items[0].Assets[key]
		if got := strings.Join(asset.Alternates(), " "); got != want {
			t.Errorf("%s: %s, expected %s", key, got, want)
		}
	}
}

func TestHrefsAreRelativeToTheDocument(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ document, href, want string }{
		{"d/items.json", "./a%20b.tif", "d/a b.tif"}, {"items.json", "../a.tif", "../a.tif"}, {"d/i.json", "/x/a.tif", "/x/a.tif"},
		{"i.json", "s3://b/a.tif", "s3://b/a.tif"}, {"i.json", "https://h/a.tif?sig=1", "https://h/a.tif?sig=1"},
		{"https://h/s/i.json?x=1", "a.tif", "https://h/s/a.tif"}, {"https://h/s/i.json", "/a%20b.tif", "https://h/a%20b.tif"},
		{"s3://b/s/i.json", "../a%20b.tif", "s3://b/a b.tif"}, {"https://h/i.json", "s3://b/a.tif", "s3://b/a.tif"},
		{"i.json", "file:///x/a.tif", "file:///x/a.tif"},
		{"https://h/i.json", "//evil/a.tif", "https://evil/a.tif"},
	} {
		if got, err := ResolveHref(c.document, c.href); err != nil || got != c.want {
			t.Errorf("%s of %s: %q, %v, expected %q", c.href, c.document, got, err, c.want)
		}
	}
	for _, c := range []struct{ document, href string }{
		{"i.json", ""}, {"i.json", "a\n.tif"}, {"i.json", "PG:dbname=x"}, {"i.json", "<VRTDataset/>"}, {"i.json", "/vsicurl/http://h/a.tif"},
		{"s3://b/i.json", "../a.tif"}, {"s3://b/i.json", "/a.tif"}, {"https://h/i.json", "file:///etc/passwd"},
		{"https://h/i.json", "data:text"}, {"s3://b/i.json", "file:///etc/passwd"},
	} {
		if got, err := ResolveHref(c.document, c.href); err == nil {
			t.Errorf("%s of %s: %q, expected an error", c.href, c.document, got)
		}
	}
	odd := filepath.Join(dir, "2024-06-01T10:00.tif")
	if err := os.WriteFile(odd, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if got, err := ResolveHref(filepath.Join(dir, "i.json"), "./2024-06-01T10:00.tif"); err != nil || got != odd {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzParseDocument(f *testing.F) {
	f.Add(collection("", feature("a", `"2024-06-01"`, "[1,2,3,4]", "B04")))
	f.Add(feature("a", `"2024-06-01"`, "[1e300,2,-1e300,4,5,6]", "B04"))
	f.Add(`{"type":"FeatureCollection","features":[null]}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse([]byte(text))
		if err != nil {
			return
		}
		d.SortBySolarDay()
		for _, by := range []Grouping{ByItem, ByDay, BySolarDay} {
			groups, err := d.Groups(by)
			sum := 0
			for _, n := range groups {
				sum += n
			}
			if err == nil && sum != len(d.Items) {
				t.Errorf("groups %v of %d items", groups, len(d.Items))
			}
		}
		for _, it := range d.Items {
			for _, asset := range it.Assets {
				names := asset.Alternates()
				href, ok := asset.AlternateHref(names[len(names)-1:])
				if !ok {
					t.Errorf("no href for %q", names)
				}
				for _, document := range []string{"i.json", "s3://b/i.json", "https://h/i.json"} {
					if to, err := ResolveHref(document, href); err == nil && to == "" {
						t.Errorf("%q leads nowhere", href)
					}
				}
			}
		}
	})
}
