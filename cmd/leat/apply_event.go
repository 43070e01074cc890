package main

import (
	"errors"
	"os"
	"time"

	"leat/apply"
	"leat/apply/outcome"
	"leat/internal/storeurl"
)

// startedEvent is the first line of leat apply --json, when the run is planned.
type startedEvent struct {
	eventDoc
	Version string `json:"version"` // of leat
	Command string `json:"command"` // as a shell takes it, without secrets
	planDoc
}

func newStartedEvent(p *outcome.Plan) *startedEvent {
	return &startedEvent{newEventDoc("started"), version, commandLine(os.Args), *newPlanDoc(p)}
}

// progressEvent is a line of leat apply --json now and then.
type progressEvent struct {
	eventDoc
	blocksDoc
	Pixels     int64    `json:"pixels"` // of the outputs, that are finished
	Elapsed    float64  `json:"elapsed_seconds"`
	Rate       float64  `json:"pixels_per_second"`    // over the last seconds
	Remaining  *float64 `json:"remaining_seconds"`    // an estimate; null: not known
	Bottleneck string   `json:"bottleneck,omitempty"` // the stage that limits the run now
}

// doneEvent is the last line of leat apply --json of a run that made its outputs.
type doneEvent struct {
	eventDoc
	Elapsed  float64     `json:"elapsed_seconds"`
	Blocks   int         `json:"blocks"`         // that were computed
	Resumed  int         `json:"resumed_blocks"` // of these, from an earlier run
	Pixels   int64       `json:"pixels"`         // of the outputs
	Outputs  []resultDoc `json:"outputs"`        // in the order of their names
	Items    []itemDoc   `json:"stac_items"`     // that --stac wrote
	Notes    []string    `json:"notes"`
	Warnings []string    `json:"warnings"`
	Timings  timingsDoc  `json:"timings"`
	*workersDoc
}

// itemDoc is a STAC Item that was written.
type itemDoc struct {
	Path    string   `json:"path"`
	Outputs []string `json:"output_names"` // of those that are its assets
}

// workersDoc is what a run in other processes has besides.
type workersDoc struct {
	Joined   int   `json:"joined_workers"`
	Lost     int64 `json:"lost_workers"`
	Replaced int64 `json:"replaced_workers"`
	Reissued int64 `json:"reissued_blocks"` // given to another worker, because one was lost or failed
	Copied   int64 `json:"copied_blocks"`   // given to a second worker, because one was slow
}

// resultDoc is a finished output.
type resultDoc struct {
	outputDoc
	Bytes            int64           `json:"bytes"`              // of the file, or of all files
	Polygons         *int64          `json:"polygons,omitempty"` // number of them, where the file has polygons
	Bands            []resultBandDoc `json:"bands"`
	Files            []string        `json:"files"` // of a format other than GTiff, in the output's directory
	Saturated        int64           `json:"saturated_pixels"`
	NodataCollisions int64           `json:"nodata_collisions"` // valid pixels that equal nodata
	Infinite         int64           `json:"infinite_pixels"`
	Warnings         []string        `json:"warnings"`
}

// resultBandDoc is a band of a finished output.
type resultBandDoc struct {
	bandDoc
	Name        string    `json:"name,omitempty"`
	Statistics  *statsDoc `json:"statistics"` // null: none were asked for, or no pixel is valid
	Pixels      int64     `json:"pixels"`     // that were counted; 0 without statistics
	ValidPixels int64     `json:"valid_pixels"`
	NaNPixels   int64     `json:"nan_pixels"`
}

// errorEvent is the last line of leat apply --json of a run that failed.
type errorEvent struct {
	eventDoc
	Error string   `json:"error"`
	Hint  string   `json:"hint,omitempty"`
	Kept  *keptDoc `json:"kept,omitempty"` // finished blocks, for --resume
}

// keptDoc is what a failed run kept.
type keptDoc struct {
	Paths []string `json:"paths"` // of the unfinished outputs
	Bytes int64    `json:"bytes"` // of these together
	blocksDoc
}

// unfinishedEvent is an unfinished output that leat apply --unfinished --json lists.
type unfinishedEvent struct {
	eventDoc
	Path   string `json:"path"`
	Output string `json:"output"` // path or URL; empty: not known
	blocksDoc
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"`
	InUse    bool      `json:"in_use"` // a run is writing it
}

// discardedEvent is an unfinished output that leat apply discard --json removed.
type discardedEvent struct {
	eventDoc
	Path   string `json:"path"`
	Output string `json:"output"` // path or URL; empty: not known
	Bytes  int64  `json:"bytes"`
}

// newDoneEvent describes a result.
func newDoneEvent(res *apply.Result, items []*itemFile) *doneEvent {
	e := &doneEvent{eventDoc: newEventDoc("done"), Elapsed: res.Wall.Seconds(), Blocks: res.Blocks, Resumed: res.Resumed,
		Pixels: res.Pixels, Outputs: []resultDoc{}, Items: []itemDoc{}, Notes: noteTexts(res.Plan.Notes),
		Warnings: noteTexts(res.Plan.Warnings), Timings: newTimingsDoc(res.Timings)}
	for i := range res.Outputs {
		e.Outputs = append(e.Outputs, newResultDoc(&res.Outputs[i]))
	}
	for _, it := range items {
		e.Items = append(e.Items, itemDoc{storeurl.Redact(it.path), it.outputs})
	}
	if w := res.Workers; w != nil {
		e.workersDoc = &workersDoc{len(w.Workers), w.LostWorkers, w.ReplacedWorkers, w.Reissued, w.Copies}
	}
	return e
}

// newResultDoc describes a finished output.
func newResultDoc(o *outcome.OutputResult) resultDoc {
	d := resultDoc{
		outputDoc: outputDoc{o.Name, o.Path, o.Format, orEmpty(o.Options), o.Coding, newSizeDocs(o.Overviews)},
		Bytes:     o.Bytes, Polygons: o.Polygons, Files: orEmpty(o.Files), Bands: []resultBandDoc{},
		Saturated:        o.Counts.Saturated,
		NodataCollisions: o.Counts.NodataCollision, Infinite: o.Counts.Inf, Warnings: noteTexts(o.Warnings)}
	var nodata *pixelValue
	if o.Nodata != nil {
		nodata = newPixelValue(o.Nodata.String())
	}
	for i, b := range o.Bands {
		band := resultBandDoc{bandDoc: newBandDoc(i, o.Type.String(), nodata, b.Scaling), Name: b.Name,
			Pixels: b.Pixels, ValidPixels: b.Valid, NaNPixels: b.NaN}
		if b.Valid > 0 {
			band.Statistics = &statsDoc{newJSONFloat(b.Min), newJSONFloat(b.Max), newJSONFloat(b.Mean),
				newJSONFloat(b.StdDev), newJSONFloat(b.ValidPercent), true}
		}
		d.Bands = append(d.Bands, band)
	}
	return d
}

// newErrorEvent describes the error of a run.
func newErrorEvent(err error) *errorEvent {
	e := &errorEvent{eventDoc: newEventDoc("error"), Error: errorText(withoutLeftover(err)),
		Hint: hintText(withoutLeftover(err))}
	if left := new(outcome.IncompleteError); errors.As(err, &left) {
		e.Kept = &keptDoc{orEmpty(left.Paths), left.Bytes, blocksDoc{left.Total, max(0, left.Done)}}
	}
	return e
}
