package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/apply/internal/resolve"
	"leat/apply/internal/spool"
	"leat/apply/outcome"
	"leat/ndarray"
)

// Earlier is a run that left blocks in the spools of all outputs, from which this one continues.
type Earlier struct {
	Saved []*Saved // by output
}

// findEarlier reads the headers of all spools of an earlier run. If one is missing there is nothing
// to resume from, which the note says. It locks nothing.
func findEarlier(job *resolve.Job) (_ *Earlier, note string, err error) {
	if !job.Values.Resume {
		return nil, "", nil
	}
	saved := make([]*Saved, len(job.Outputs))
	for i, o := range job.Outputs {
		path := o.Spec.SpoolPath()
		if saved[i], err = openSaved(path); err != nil {
			return nil, "", &outcome.ResumeError{Path: path, Err: err}
		}
		if saved[i] != nil {
			continue
		}
		note = fmt.Sprintf("nothing to resume: there is no %s, so all blocks are computed", path)
		if _, err := os.Lstat(path); err == nil {
			note = fmt.Sprintf("nothing to resume: %s contains no block, so all blocks are computed", path)
		}
		if t := o.Spec.Target(); path != t.LockPath() {
			sibling := t.LockPath()
			if st, err := os.Stat(sibling); err == nil && st.Size() > 0 && !t.InStore {
				return nil, "", &outcome.ResumeError{Path: sibling,
					Err: jobspec.Errorf("Output.TempDir", "it is next to the output, expected in %s", filepath.Dir(path))}
			}
		}
	}
	switch {
	case slices.Contains(saved, nil):
		return nil, note, checkMissing(job, saved)
	case len(saved) == 0:
		return nil, "", nil
	}
	return &Earlier{saved}, "", nil
}

// checkMissing returns an error if a run can't start over because some spools have blocks and
// others are missing. Starting over would delete the blocks because of an output that was added or
// renamed.
func checkMissing(job *resolve.Job, saved []*Saved) error {
	for i, o := range job.Outputs {
		if saved[i] == nil || saved[i].Header.Empty() { // no block
			continue
		}
		all := jobspec.DiffOutputs(saved[i].Outputs, slices.Sorted(maps.Keys(job.Values.Outputs)))
		for k, l := range job.Outputs {
			if saved[k] != nil {
				continue
			}
			path := l.Spec.SpoolPath()
			// A run leaves an empty file if it is killed before its first block is complete, or
			// while it removes the spools of finished outputs.
			if st, err := os.Lstat(path); err != nil || len(all) > 0 || !st.Mode().IsRegular() {
				all = append(all, fmt.Sprintf("output %s has nothing to resume from (%s)", l.Name, path))
			}
		}
		if len(all) > 0 {
			return &outcome.ResumeError{Path: o.Spec.SpoolPath(), Changes: all}
		}
	}
	return nil
}

// Saved is the header of a spool and the description of the run that wrote it.
type Saved struct {
	Header *spool.Header
	jobspec.Description
}

// openSaved reads the header of the spool at path. It returns nil if there is no file, an empty
// one, or one whose header is not complete.
func openSaved(path string) (*Saved, error) {
	h, err := spool.OpenHeader(path)
	if h == nil || err != nil {
		return nil, err
	}
	s := &Saved{Header: h}
	if err := json.Unmarshal(h.Description, &s.Description); err != nil {
		return nil, spool.ErrDamaged
	}
	return s, nil
}

// blockSize returns the size of the earlier run's blocks, which this run has too unless the user
// sets one: the machine's memory and cores must not matter. It is 0 if the header has none that is
// valid.
func (e *Earlier) blockSize() (width, height int) {
	d := e.Saved[0]
	const most = jobspec.MaxBlockSide
	if d.BlockWidth < 1 || d.BlockHeight < 1 || d.BlockWidth > most || d.BlockHeight > most {
		return 0, 0
	}
	return d.BlockWidth, d.BlockHeight
}

// check returns a ResumeError if the planned run differs from the earlier one.
func (e *Earlier) check(job *resolve.Job, p *Plan) error {
	changes, err := compare(job, p, e.Saved, false)
	if err != nil {
		return err
	}
	if len(changes) > 0 {
		return &outcome.ResumeError{Path: job.Outputs[0].Spec.SpoolPath(), Changes: changes}
	}
	return nil
}

// compare lists the differences between the planned run and the earlier one. If anyBlocks is true
// it ignores the block size, which a resumed run adopts.
func compare(job *resolve.Job, p *Plan, saved []*Saved, anyBlocks bool) (all []string, err error) {
	for i, o := range job.Outputs {
		was := saved[i]
		t, bands, nodata, err := was.TypeOf(o, job.Programs != nil)
		if err != nil {
			return nil, &outcome.ResumeError{Path: o.Spec.SpoolPath(), Err: err}
		}
		now, err := p.Describe(job, o, t, bands, nodata)
		if err != nil {
			return nil, err
		}
		if anyBlocks {
			now.BlockWidth, now.BlockHeight, now.Blocks = was.BlockWidth, was.BlockHeight, was.Blocks
		}
		for _, clause := range jobspec.Diff(&was.Description, now) {
			if !slices.Contains(all, clause) { // outputs have the same inputs
				all = append(all, clause)
			}
		}
	}
	return all, nil
}

// TypeOf returns the type, number of bands and nodata of an output, from the header where they are
// not known yet. expressions reports whether the output is that of an expression.
func (s *Saved) TypeOf(o *output.Output, expressions bool) (t ndarray.DType, bands int, nodata *ndarray.Scalar,
	err error) {
	t, bands, nodata = o.Type, o.Bands, o.Nodata
	if !t.Valid() {
		if t, err = ndarray.ParseDType(s.Type); err != nil {
			return t, 0, nil, spool.ErrDamaged
		}
	}
	if bands == 0 {
		bands = s.Bands
	}
	if bands < 1 || bands > 1<<16 {
		return t, 0, nil, spool.ErrDamaged
	}
	if nodata == nil && o.Spec.Nodata != "" && o.Spec.Nodata != "none" && !expressions {
		v, err := output.ParseNodata(o.Spec.Nodata, t)
		if err != nil {
			return t, 0, nil, err
		}
		nodata = &v
	}
	return t, bands, nodata, nil
}
