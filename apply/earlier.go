package apply

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ResumeError tells why a run can't go on from what another one left.
type ResumeError struct {
	Path    string   // of the unfinished output
	Changes []string // clauses that say what is not as it was
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
	return text + "; run without --resume to start anew, or remove it (leat apply --discard)"
}

func (e *ResumeError) Unwrap() error { return e.Err }

// findEarlier reads the headers of what an earlier run left of the outputs. All of them are needed: if one is missing there is nothing to go on from. Nothing is locked
// yet: see openSpools.
func (r *run) findEarlier() (note string, err error) {
	if !r.job.Resume {
		return "", nil
	}
	var have, lack []*output
	for _, o := range r.outs {
		path := spoolPath(o.spec.identity(), o.spec.tempDir())
		if o.earlier, err = readEarlier(path); err != nil {
			return "", &ResumeError{Path: path, Err: err}
		}
		if o.earlier != nil {
			have = append(have, o)
			continue
		}
		lack = append(lack, o)
		note = fmt.Sprintf("nothing to resume: there is no %s, so all blocks are computed", path)
		if beside := spoolPath(o.spec.identity(), ""); path != beside {
			if st, err := os.Stat(beside); err == nil && st.Size() > 0 && !o.spec.inStore() {
				return "", &ResumeError{Path: beside, Err: fmt.Errorf("it lies beside the output, and unfinished outputs are looked for elsewhere (--tmpdir): leave that out")}
			}
		}
	}
	if len(lack) == 0 {
		r.continues = len(have) > 0
		return "", nil
	}
	if err := r.checkLack(have, lack); err != nil {
		return "", err
	}
	for _, o := range r.outs {
		o.earlier = nil
	}
	return note, nil
}

// checkLack reports why a run can't start anew where some outputs have something to go on from, and others do not: that would be lost to an output that
// was added, or whose name is not what it was.
func (r *run) checkLack(have, lack []*output) error {
	e := &ResumeError{}
	for _, o := range have {
		if o.earlier.size == int64(len(o.earlier.bytes)) { // no block
			continue
		}
		var all changes
		all.value("the list of outputs", strings.Join(o.earlier.Outputs, ", "), strings.Join(sortedKeys(r.job.Outputs), ", "))
		for _, l := range lack {
			path := spoolPath(l.spec.identity(), l.spec.tempDir())
			// A run that was killed before its first block was whole leaves empty files.
			if st, err := os.Lstat(path); err != nil || len(all) > 0 || !st.Mode().IsRegular() {
				all.say("of output %s there is nothing to go on from (%s)", l.name, path)
			}
		}
		if len(all) > 0 && e.Path == "" {
			e.Path, e.Changes = spoolPath(o.spec.identity(), o.spec.tempDir()), all
		}
	}
	if e.Path == "" {
		return nil
	}
	return e
}

// readEarlier reads the header of the unfinished output at path; nil where there is none.
func readEarlier(path string) (*header, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	switch sys, ok := st.Sys().(*syscall.Stat_t); {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, errNotSpool
	case st.Size() == 0:
		return nil, nil
	case ok && int(sys.Uid) != os.Geteuid(): // folders for temporary files are everyone's
		return nil, fmt.Errorf("it belongs to another user")
	}
	return readHeader(f, st.Size())
}

// takeWindow makes the blocks of a continued run those of the run before, unless the user asks for others: what a machine has of memory
// and cores must not matter.
func (r *run) takeWindow() {
	c := &r.job.Controls
	if !r.continues || c.WindowWidth > 0 {
		return
	}
	const most = 1 << 24
	if d := r.outs[0].earlier; d.BlockWidth > 0 && d.BlockHeight > 0 && d.BlockWidth <= most && d.BlockHeight <= most {
		c.WindowWidth, c.WindowHeight = d.BlockWidth, d.BlockHeight
	}
}

// checkEarlier holds this run to what the headers say of the one before.
func (r *run) checkEarlier() error {
	if !r.continues {
		return nil
	}
	var all changes
	for _, o := range r.outs {
		was := o.earlier
		t, bands, nodata, err := o.earlierType()
		if err != nil {
			return &ResumeError{Path: spoolPath(o.spec.identity(), o.spec.tempDir()), Err: err}
		}
		now, err := o.describe(t, bands, nodata)
		if err != nil {
			return err
		}
		all.compare(&was.description, now)
	}
	if len(all) > 0 {
		o := r.outs[0]
		return &ResumeError{Path: spoolPath(o.spec.identity(), o.spec.tempDir()), Changes: all}
	}
	return nil
}

// sameHeader reports whether the locked spool is the one whose header was read before.
func (o *output) sameHeader() error {
	head := make([]byte, len(o.earlier.bytes))
	if _, err := o.spool.f.ReadAt(head, 0); err != nil || !bytes.Equal(head, o.earlier.bytes) {
		return fmt.Errorf("%s: %s was changed by another run of leat just now: try again", o.spec.label(), o.spool.path)
	}
	return nil
}
