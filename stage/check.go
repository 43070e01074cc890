//go:build unix

package stage

import (
	"golang.org/x/sys/unix"

	"leat/stage/internal/ledger"
	"leat/stage/internal/shelf"
)

// whole tells whether the bytes of an object that the books know are there.
func (p *Pool) whole(o ledger.Object) bool {
	if o.Size < 0 || o.Charge != shelf.Charge(o.Size) {
		return false
	}
	packed := o.Place.Packed()
	if packed && (o.Place.Offset < 0 || o.Place.Offset%shelf.Block != 0 || o.Place.Offset > shelf.SegmentSize-o.Charge) {
		return false
	}
	if packed && o.Size == 0 {
		return true // it has no block, and its segment may be gone
	}
	var st unix.Stat_t
	if unix.Stat(p.shelf.Path(o.Place), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	return packed && o.Place.Offset+o.Size <= st.Size || !packed && o.Size == st.Size
}

// tidy frees all that the books do not know, while no other process uses the directory.
func (p *Pool) tidy(all []ledger.Object) error {
	_, err := p.shelf.Tidy(func(yield func(shelf.Place, int64) bool) {
		for _, o := range all {
			if !yield(o.Place, o.Charge) {
				return
			}
		}
	})
	return err
}
