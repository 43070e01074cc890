package apply

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"leat/ndarray"
)

func TestOutputList(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "a.tif"), mapGrid(96, 64, 0, 0), terrain[uint8](96, 64, 1), nil)
	const n = 12 // names of more than one digit
	var list []Output
	for i := range n {
		list = append(list, Output{Path: filepath.Join(dir, fmt.Sprintf("out%d.tif", i))})
	}
	add := func(_ context.Context, b *Block) error {
		var arrays []*ndarray.Array
		for i := range n {
			a := b.NewOut(ndarray.Uint8, 1)
			out := ndarray.Slice[uint8](a.At(0))
			for k, v := range Band[uint8](b, "a", 1) {
				out[k] = v + uint8(i)
			}
			arrays = append(arrays, a)
		}
		b.SetOutList("x", arrays)
		return nil
	}
	job := Job{Inputs: map[string]Input{"a": File(path)}, OutputLists: map[string][]Output{"x": list}, Func: add,
		Controls: Controls{WindowWidth: 32, WindowHeight: 32}}
	res := mustRun(t, job)
	if len(res.Outputs) != n {
		t.Fatalf("%d outputs", len(res.Outputs))
	}
	in := pixels[uint8](t, path)
	for i, o := range list {
		for k, v := range pixels[uint8](t, o.Path) {
			if v != in[k]+uint8(i) {
				t.Fatalf("output %d: pixel %d is %d, expected %d", i, k, v, in[k]+uint8(i))
			}
		}
	}
	for want, change := range map[string]func(*Job){
		"another length": func(j *Job) { j.OutputLists = map[string][]Output{"x": list[:3]} },
		"an empty list":  func(j *Job) { j.OutputLists = map[string][]Output{"x": nil} },
		"and a list":     func(j *Job) { j.Outputs = map[string]Output{"x": list[0]} },
		"part of a list": func(j *Job) { j.Outputs = map[string]Output{"x[3]": list[0]} },
	} {
		bad := job
		change(&bad)
		failRun(t, bad, want)
	}
}
