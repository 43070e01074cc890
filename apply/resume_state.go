package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/spool"
)

// ResumeError is returned when a run can't resume from the blocks of an earlier one.
type ResumeError struct {
	Path    string   // path of the unfinished output
	Changes []string // clauses, each about a difference between the runs
	Err     error
}

func (e *ResumeError) Error() string {
	text := fmt.Sprintf("%s can't be continued (--resume): ", e.Path)
	if e.Err != nil {
		text += e.Err.Error()
	}
	for i, c := range e.Changes {
		if i > 0 {
			text += "; "
		}
		text += c
	}
	text += "; run without --resume to start over, or remove it"
	if !errors.Is(e.Err, spool.ErrNotSpool) {
		text += " (leat apply --discard)"
	}
	return text
}

func (e *ResumeError) Unwrap() error { return e.Err }

// findEarlier reads the headers of all spools of an earlier run. If one is missing there is nothing
// to resume from. It locks nothing: see openSpools.
func (r *run) findEarlier() (note string, err error) {
	if !r.job.Resume {
		return "", nil
	}
	saved := make([]*savedRun, len(r.outs))
	for i, o := range r.outs {
		path := o.Spec.SpoolPath()
		if saved[i], err = openSaved(path); err != nil {
			return "", &ResumeError{Path: path, Err: err}
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
				return "", &ResumeError{Path: sibling,
					Err: fmt.Errorf("it is next to the output, and unfinished outputs are expected elsewhere (--tmpdir): leave that out")}
			}
		}
	}
	if !slices.Contains(saved, nil) {
		r.saved, r.continues = saved, len(saved) > 0
		return "", nil
	}
	return note, r.checkMissing(saved)
}

// checkMissing returns an error if a run can't start over because some spools have blocks and
// others are missing. Starting over would delete the blocks because of an output that was added or
// renamed.
func (r *run) checkMissing(saved []*savedRun) error {
	for i, o := range r.outs {
		if saved[i] == nil || saved[i].header.Empty() { // no block
			continue
		}
		all := jobspec.DiffOutputs(saved[i].Outputs, sortedKeys(r.job.Outputs))
		for k, l := range r.outs {
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
			return &ResumeError{Path: o.Spec.SpoolPath(), Changes: all}
		}
	}
	return nil
}

// savedRun is the header of a spool and the description of the run that wrote it.
type savedRun struct {
	header *spool.Header
	jobspec.Description
}

// openSaved reads the header of the spool at path. It returns nil if there is no file, an empty
// one, or one whose header is not complete.
func openSaved(path string) (*savedRun, error) {
	h, err := spool.OpenHeader(path)
	if h == nil || err != nil {
		return nil, err
	}
	s := &savedRun{header: h}
	if err := json.Unmarshal(h.Description, &s.Description); err != nil {
		return nil, spool.ErrDamaged
	}
	return s, nil
}

// adoptBlockSize gives a resumed run the block size of the earlier run, unless the user sets one:
// the machine's memory and cores must not matter.
func (r *run) adoptBlockSize() {
	c := &r.job.Controls
	if !r.continues || c.WindowWidth > 0 {
		return
	}
	const most = 1 << 24
	if d := r.saved[0]; d.BlockWidth > 0 && d.BlockHeight > 0 && d.BlockWidth <= most && d.BlockHeight <= most {
		c.WindowWidth, c.WindowHeight = d.BlockWidth, d.BlockHeight
	}
}

// checkEarlier returns a ResumeError if this run differs from the earlier one.
func (r *run) checkEarlier() error {
	if !r.continues {
		return nil
	}
	changes, err := r.compareEarlier(r.saved, false)
	if err != nil {
		return err
	}
	if len(changes) > 0 {
		o := r.outs[0]
		return &ResumeError{Path: o.Spec.SpoolPath(), Changes: changes}
	}
	return nil
}

// compareEarlier lists the differences between this run and the earlier one. If anyBlocks is true
// it ignores the block size, which a resumed run adopts.
func (r *run) compareEarlier(saved []*savedRun, anyBlocks bool) (all []string, err error) {
	for i, o := range r.outs {
		was := saved[i]
		t, bands, nodata, err := r.savedType(o, was)
		if err != nil {
			return nil, &ResumeError{Path: o.Spec.SpoolPath(), Err: err}
		}
		now, err := r.describe(o, t, bands, nodata)
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
