package resolve

import (
	"testing"
	"time"

	"leat/raster"
)

func TestTimesOfNames(t *testing.T) {
	for name, want := range map[string]string{
		"LC08_L1TP_195028_20200105_20200113_01_T1_B4.TIF":             "2020-01-05T00:00:00Z",
		"/data/T32TPT_20240601T101559_B04_10m.jp2":                    "2024-06-01T10:15:59Z",
		"s3://b/S2A_32TPT_20200105_0_L2A/B04.tif":                     "2020-01-05T00:00:00Z",
		"MOD13Q1.A2020001.h18v04.006.2020018001022.hdf":               "2020-01-01T00:00:00Z",
		"HLS.L30.T32TPT.2020366T102030.v2.0.B04.tif":                  "2020-12-31T10:20:30Z",
		"S1A_IW_GRDH_1SDV_20200105T053512_20200105T053537_030677.tif": "2020-01-05T05:35:12Z",
		"ndvi_2020-02-29.tif":                                         "2020-02-29T00:00:00Z",
		"ndvi_2020-02-29_20210101.tif":                                "error",
		"2020_02_29/ndvi.tif":                                         "2020-02-29T00:00:00Z",
		"MOLT/2020.02.29/ndvi.tif":                                    "2020-02-29T00:00:00Z",
		"20200229103421.tif?versionId=20190101":                       "2020-02-29T10:34:21Z",
		"2020-01-05T10:34:21Z.tif":                                    "2020-01-05T10:34:21Z",
		"20201231_20200101.tif":                                       "error",
		"/20200101/a/b.tif":                                           "",
		"ndvi_2021-02-29.tif":                                         "",
		"scene_12345678_2020-01.tif":                                  "",
		"tile_19500101195001011950.tif":                               "",
		"B04.tif":                                                     "",
		"20200105/LC08_195028.tif":                                    "2020-01-05T00:00:00Z",
		"/x/20200105_195028_more/20200106_195028.tif":                 "2020-01-06T00:00:00Z",
		"2020005_20200106.tif":                                        "error",
	} {
		got, err := timeOfName(name)
		text := ""
		switch {
		case err != nil:
			text = "error"
		case !got.IsZero():
			text = got.Format(time.RFC3339)
		}
		if text != want {
			t.Errorf("%s: %s (%v), expected %s", name, text, err, want)
		}
	}
}

func TestTimesOfMetadata(t *testing.T) {
	items := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for i, c := range []struct {
		info raster.Info
		name string
		want string
	}{
		{raster.Info{Metadata: items("TIFFTAG_DATETIME", "2024:01:02 03:04:05")}, "a.tif", "2024-01-02T03:04:05Z"},
		{raster.Info{Metadata: items("TIFFTAG_DATETIME", "2024:01:02 03:04:05")}, "20200105.tif", "2020-01-05T00:00:00Z"},
		{raster.Info{Metadata: items("datetime", "2021-03-04T05:06:07.89Z")}, "20200105.tif", "2021-03-04T05:06:07.89Z"},
		{raster.Info{Domains: map[string]map[string]string{"IMAGERY": items("ACQUISITIONDATETIME", "2022-01-01 10:00:00")},
			Metadata: items("datetime", "2021-03-04")}, "a.tif", "2022-01-01T10:00:00Z"},
		{raster.Info{Metadata: items("TIFFTAG_DATETIME", "yesterday")}, "a.tif", ""},
	} {
		got, err := findTime(&c.info, c.name)
		if text := got.Format(time.RFC3339Nano); err != nil && c.want != "" || err == nil && text != c.want {
			t.Errorf("%d: %s, %v, expected %q", i, text, err, c.want)
		}
	}
}
