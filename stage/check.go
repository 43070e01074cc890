//go:build unix

package stage

import (
	"leat/stage/internal/index"
	"leat/stage/internal/store"
)

// isComplete reports whether the file that an index entry names can hold the object. It compares
// sizes only, so that a damaged size neither allocates memory nor reads data.
func (p *Pool) isComplete(o index.Object) bool {
	if o.Size < 0 || o.Charge != store.Charge(o.Size) {
		return false
	}
	packed := o.Place.Packed()
	if packed && (o.Place.Offset < 0 || o.Place.Offset%store.Block != 0 ||
		o.Place.Offset > store.SegmentSize-o.Charge) {
		return false
	}
	if packed && o.Size == 0 {
		return true // an empty object has no block, and its segment may have been removed
	}
	size, err := p.store.Size(o.Place)
	return err == nil && (packed && o.Place.Offset+o.Size <= size || !packed && o.Size == size)
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
