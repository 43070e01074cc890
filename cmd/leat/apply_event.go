package main

import (
	"fmt"

	"leat/apply"
)

// resultEvent is the last line of --json.
func resultEvent(res *apply.Result) map[string]any {
	outputs := []map[string]any{}
	for _, o := range res.Outputs {
		var bands []map[string]any
		for _, b := range o.Bands {
			m := map[string]any{"valid": b.Moments.Valid, "total": b.Moments.Total, "nan": b.Moments.NaN}
			if b.Moments.Valid > 0 {
				m["min"], m["max"], m["mean"], m["stddev"] = jsonNumber(b.Moments.Min), jsonNumber(b.Moments.Max),
					jsonNumber(b.Moments.Mean), jsonNumber(b.Moments.StdDev())
			}
			bands = append(bands, m)
		}
		nodata := any(nil)
		if o.Nodata != nil {
			nodata = o.Nodata.String()
		}
		outputs = append(outputs, map[string]any{"name": o.Name, "path": o.Path, "type": o.Type.String(),
			"nodata": nodata, "bytes": o.Bytes,
			"coding": o.Coding, "format": o.Format, "files": orEmpty(o.Files), "bands": bands,
			"saturated": o.Counts.Saturated, "nodata_collisions": o.Counts.NodataCollision,
			"inf": o.Counts.Inf, "warnings": noteTexts(o.Warnings)})
	}
	event := map[string]any{"event": "done", "wall_seconds": res.Wall.Seconds(), "blocks": res.Blocks,
		"pixels":  res.Pixels,
		"resumed": res.Resumed, "outputs": outputs, "notes": noteTexts(res.Plan.Notes),
		"warnings": noteTexts(res.Plan.Warnings), "timings": res.Timings}
	if o := res.Workers; o != nil {
		event["workers"], event["lost_workers"], event["reissued_blocks"], event["copied_blocks"] = len(o.Workers),
			o.LostWorkers, o.Reissued, o.Copies
		event["replaced_workers"] = o.ReplacedWorkers
	}
	return event
}

// orEmpty is the list, never null.
func orEmpty(list []string) []string { return append([]string{}, list...) }

// jsonNumber is v, or its name where JSON has no number for it.
func jsonNumber(v float64) any {
	if v-v != 0 {
		return fmt.Sprint(v)
	}
	return v
}
