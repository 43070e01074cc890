package stac

import (
	"slices"
	"testing"
	"time"
)

// CheckItem checks the fields that STAC 1.0.0 and the extensions projection 1.1.0 and raster 1.1.0
// require, and their types.
func CheckItem(t *testing.T, d map[string]any) {
	t.Helper()
	if d["type"] != "Feature" || d["stac_version"] != "1.0.0" || d["id"] == "" || d["id"] == nil {
		t.Errorf("type %v, stac_version %v, id %v", d["type"], d["stac_version"], d["id"])
	}
	if _, ok := d["links"].([]any); !ok {
		t.Errorf("links are %v", d["links"])
	}
	if _, ok := d["geometry"]; !ok {
		t.Error("no geometry")
	}
	if box, _ := d["bbox"].([]any); d["geometry"] != nil && len(box) != 4 {
		t.Errorf("box %v for a geometry", box)
	} else if d["geometry"] == nil && d["bbox"] != nil {
		t.Errorf("box %v without a geometry", box)
	}
	p, _ := d["properties"].(map[string]any)
	moment := func(key string) {
		text, _ := p[key].(string)
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			t.Errorf("%s is %v: %v", key, p[key], err)
		}
	}
	if when, ok := p["datetime"]; !ok {
		t.Error("no datetime")
	} else if when == nil {
		moment("start_datetime")
		moment("end_datetime")
	} else {
		moment("datetime")
	}
	if _, ok := p["proj:epsg"]; !ok {
		t.Error("no proj:epsg")
	}
	extensions, _ := d["stac_extensions"].([]any)
	for _, e := range []any{projectionExtension, rasterExtension} {
		if !slices.Contains(extensions, e) {
			t.Errorf("the extension %v is missing", e)
		}
	}
	assets, _ := d["assets"].(map[string]any)
	if len(assets) == 0 {
		t.Error("no assets")
	}
	types := []any{"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
		"cint16", "cint32", "cfloat32", "cfloat64", "other"}
	for key, a := range assets {
		asset, _ := a.(map[string]any)
		if href, _ := asset["href"].(string); href == "" {
			t.Errorf("asset %s: href %v", key, asset["href"])
		}
		bands, _ := asset["raster:bands"].([]any)
		if len(bands) == 0 {
			t.Errorf("asset %s: no bands", key)
		}
		for _, b := range bands {
			band, _ := b.(map[string]any)
			if !slices.Contains(types, band["data_type"]) {
				t.Errorf("asset %s: data_type %v", key, band["data_type"])
			}
			switch v := band["nodata"].(type) {
			case nil, float64:
			case string:
				if v != "nan" && v != "inf" && v != "-inf" {
					t.Errorf("asset %s: nodata %q", key, v)
				}
			default:
				t.Errorf("asset %s: nodata %v", key, v)
			}
		}
	}
}
