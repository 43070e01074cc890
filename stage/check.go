//go:build unix

package stage

import (
	"leat/stage/internal/index"
	"leat/stage/internal/store"
)

// mayBeComplete is isComplete for an object that is kept if nothing shows that it is damaged.
func (p *Pool) mayBeComplete(o index.Object) bool {
	complete, err := p.isComplete(o)
	return complete || err != nil
}

// isComplete reports whether the file that an index entry names can hold the object. It compares
// sizes only, so that a damaged size neither allocates memory nor reads data. The error says
// nothing about the object.
func (p *Pool) isComplete(o index.Object) (bool, error) {
	if o.Size < 0 || o.Charge != store.Charge(o.Size) {
		return false, nil
	}
	packed := o.Place.Packed()
	if packed && (o.Place.Offset < 0 || o.Place.Offset%store.Block != 0 ||
		o.Place.Offset > store.SegmentSize-o.Charge) {
		return false, nil
	}
	if packed && o.Size == 0 {
		return true, nil // an empty object has no block, and its segment may have been removed
	}
	size, err := p.store.Size(o.Place)
	if err != nil {
		if isDamage(err) {
			err = nil
		}
		return false, err
	}
	return packed && o.Place.Offset+o.Size <= size || !packed && o.Size == size, nil
}

// tidy removes files and regions that the index does not reference. No other process may use the
// directory meanwhile.
func (p *Pool) tidy(all []index.Object) error {
	_, err := p.store.Tidy(func(yield func(store.Place, int64) bool) {
		for _, o := range all {
			if !yield(o.Place, o.Charge) {
				return
			}
		}
	})
	return err
}
