package tiffwrite

import "leat/internal/tiff"

// lzwEncoder encodes TIFF's LZW: codes of 9 to 12 bits, most significant bit first, whose width
// grows one code before a longer one can occur.
type lzwEncoder struct {
	// table maps a code and the byte that follows it to the code of both. It uses open addressing,
	// with twice as many slots as codes. A slot is in use if its generation is the current one, so
	// that clearing is free.
	table      [lzwSlots]lzwSlot
	generation uint32
}

type lzwSlot struct {
	generation uint32
	key        uint32 // code<<8 | byte
	code       uint16
}

const (
	lzwFirst = 258 // follows the 256 bytes, tiff.LZWClear and tiff.LZWEnd
	// lzwLast is the last code before the table is cleared: readers fail on 4095.
	lzwLast     = 4094
	lzwSlotBits = 13
	lzwSlots    = 1 << lzwSlotBits
)

func (z *lzwEncoder) appendTile(dst, src []byte, _ int) ([]byte, error) {
	var bits uint64 // pending bits, the oldest in the highest bits
	var pending, width uint = 0, 9
	emit := func(code uint32) {
		bits = bits<<width | uint64(code)
		pending += width
		for pending >= 8 {
			pending -= 8
			dst = append(dst, byte(bits>>pending))
		}
	}
	next := uint32(lzwFirst)
	grow := func() { // each code adds one entry to the table
		next++
		switch {
		case next > lzwLast:
			emit(tiff.LZWClear)
			z.clear()
			next, width = lzwFirst, 9
		case next == 1<<width:
			width++
		}
	}
	z.clear()
	emit(tiff.LZWClear)
	if len(src) > 0 {
		prefix := uint32(src[0])
		for _, b := range src[1:] {
			key := prefix<<8 | uint32(b)
			slot, found := z.find(key)
			if found {
				prefix = uint32(slot.code)
				continue
			}
			*slot = lzwSlot{z.generation, key, uint16(next)}
			emit(prefix)
			grow()
			prefix = uint32(b)
		}
		emit(prefix)
		grow()
	}
	emit(tiff.LZWEnd)
	if pending > 0 {
		dst = append(dst, byte(bits<<(8-pending)))
	}
	return dst, nil
}

func (z *lzwEncoder) clear() {
	z.generation++
	if z.generation == 0 { // after 2^32 clears, old slots would look current
		z.table = [lzwSlots]lzwSlot{}
		z.generation = 1
	}
}

// find returns the slot of a key, or the free slot where it belongs.
func (z *lzwEncoder) find(key uint32) (*lzwSlot, bool) {
	i := key * 2654435769 >> (32 - lzwSlotBits)
	for {
		s := &z.table[i]
		if s.generation != z.generation {
			return s, false
		}
		if s.key == key {
			return s, true
		}
		i = (i + 1) % lzwSlots
	}
}
