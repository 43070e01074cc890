package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"leat/block"
	"leat/internal/fault"
	"leat/internal/tiffwrite"
)

// Continue prepares the file for more records after those of an earlier run. It returns
// [ErrReplaced] if the header is not the one that was read before the file was locked.
func (s *File) Continue(h *Header) error {
	head := make([]byte, len(h.bytes))
	if _, err := s.f.ReadAt(head, 0); err != nil || !bytes.Equal(head, h.bytes) {
		return fmt.Errorf("%s: %s: %w", s.label, s.path, ErrReplaced)
	}
	s.nonce = h.nonce
	return nil
}

// ErrReplaced is returned when another run wrote a spool between reading its header and locking it.
var ErrReplaced = errors.New("it was changed by another run of leat just now")

// Resume holds the records of an earlier run in a spool.
type Resume struct {
	s        *Spool
	e        *Encoder
	scan     *Scanner
	blocks   []int64     // by number: offset of the head of the block's record; 0 if there is none
	emitted  []extent    // by number: the block's emitted values in the file; nil if there are none
	tiles    []Head      // overview tiles, and tiles encoded again
	complete []levelTile // overview tiles whose pixels are all known
	known    bool        // whether the coding of final tiles is known
	parser   recordParser
	scratch  []byte
}

// Scan finds the records that follow the header in the spool's file, and cuts off what is torn at
// its end. It takes over the choice of the coding.
func (s *Spool) Scan(ctx context.Context, h *Header) (_ *Resume, err error) {
	defer func() { err = s.readError(err) }()
	st, err := s.file.Stat()
	if err != nil {
		return nil, err
	}
	plan := s.l.Blocks
	r := &Resume{s: s, e: s.NewEncoder("main"), blocks: make([]int64, plan.Count()),
		scan: newScanner(s.file, int64(len(h.bytes)), st.Size(), h.nonce), parser: recordParser{l: s.l}}
	choice := -1
	_, decided := s.chooser.coding()
	chosen := map[int]bool{} // blocks with tiles in the chosen coding while that is unknown
	end, err := r.scan.Records(ctx, func(h Head, meta []byte) error {
		switch h.Kind {
		case KindBlock:
			// A block that lacked an output was computed again: the last record counts. A record
			// that does not fit was not written by leat.
			if h.Number >= uint64(len(r.blocks)) {
				return nil
			}
			n := int(h.Number)
			if rec, err := r.parser.parse(plan.At(n), meta, h.MetaBytes+h.DataBytes); err == nil &&
				int64(len(rec.Meta)) == h.MetaBytes {
				r.blocks[n] = h.Offset
				if decided {
					return nil
				}
				delete(chosen, n)
				if slices.ContainsFunc(rec.tiles, func(t recordTile) bool { return t.final }) {
					chosen[n] = true
				}
			}
		case KindOverview, KindTile:
			r.tiles = append(r.tiles, h)
		case KindCoding:
			if h.Number < uint64(len(s.l.Candidates)) {
				choice, decided = int(h.Number), true
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if choice >= 0 {
		s.chooser.choose(choice)
	}
	if _, r.known = s.chooser.coding(); !r.known {
		for n := range chosen {
			r.blocks[n] = 0
		}
	}
	// The rest was torn.
	if err := s.file.truncate(end); err != nil {
		return nil, err
	}
	fault.Point("apply.scanned")
	return r, nil
}

// readError adds the output and the file to an error of restoring.
func (s *Spool) readError(err error) error {
	if err == nil {
		return nil
	}
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = fmt.Errorf("reading %s: %w", s.file.path, pe.Err)
	}
	return fmt.Errorf("output %s: %w", s.l.Output, err)
}

// Has reports whether the spool contains block n.
func (r *Resume) Has(n int) bool { return r.blocks[n] != 0 }

// Restore enters a block's record as if the block had just been computed, and returns its results
// other than pixels, except emitted values, which Values reads.
func (r *Resume) Restore(b block.Block) (_ Extra, err error) {
	s := r.s
	defer func() { err = s.readError(err) }()
	h, rec, err := r.record(b)
	if err != nil {
		return Extra{}, err
	}
	if err := s.sample(r.e, rec, func(t recordTile) ([]byte, error) {
		if cap(r.scratch) < t.length {
			r.scratch = make([]byte, t.length)
		}
		data := r.scratch[:t.length]
		_, err := s.file.ReadAt(data, h.DataOffset()+int64(t.offset))
		return data, err
	}); err != nil {
		return Extra{}, err
	}
	complete, err := s.commit(b, rec, h.DataOffset())
	if err != nil {
		return Extra{}, err
	}
	r.complete = append(r.complete, complete...)
	x := rec.Extra
	if len(x.Values) > 0 {
		if r.emitted == nil {
			r.emitted = make([]extent, len(r.blocks))
		}
		r.emitted[b.Number] = extent{h.Offset + HeadBytes + rec.values.offset, rec.values.length}
	}
	x.Values = nil // their memory is reused
	return x, nil
}

// record reads the tables of a block's record, which are valid until the next call.
func (r *Resume) record(b block.Block) (Head, *Record, error) {
	h, ok, err := r.scan.head(r.blocks[b.Number])
	if err == nil && !ok {
		err = ErrRecord
	}
	if err != nil {
		return h, nil, err
	}
	if err := r.scan.readMeta(&h); err != nil {
		return h, nil, err
	}
	rec, err := r.parser.parse(b, r.scan.meta, h.MetaBytes+h.DataBytes)
	return h, rec, err
}

// Values returns the values that block n, which was restored, emitted.
func (r *Resume) Values(n int) ([][]byte, error) {
	if r.emitted == nil || r.emitted[n].length == 0 {
		return nil, nil
	}
	text := make([]byte, r.emitted[n].length)
	if _, err := r.s.file.ReadAt(text, r.emitted[n].offset); err != nil {
		return nil, r.s.readError(err)
	}
	d := Decoder{Rest: text}
	list := d.byteStrings()
	if d.Torn {
		return nil, r.s.readError(ErrRecord)
	}
	return list, nil
}

// RestoreTiles enters the overview tiles of an earlier run and the tiles that it encoded again, and
// builds the overview tiles of which it had all pixels. All blocks that the spool keeps have been
// restored.
func (r *Resume) RestoreTiles() error { return r.s.readError(r.restoreTiles()) }

func (r *Resume) restoreTiles() error {
	s, file := r.s, &r.s.l.File
	missing := map[levelTile]bool{}
	for _, t := range r.complete {
		missing[t] = true
	}
	for i := range r.tiles {
		h := &r.tiles[i]
		lev, index := int(h.Number>>48), int(h.Number&(1<<48-1))
		if lev >= len(s.levels) || index >= len(s.levels[lev].tiles) {
			continue
		}
		planes := 1
		if h.Kind == KindOverview {
			planes = file.Planes()
		}
		across, down := file.TileGrid(lev)
		entries, ok := r.entries(h, planes, index, across*down)
		if !ok {
			continue
		}
		p := levelTile{lev, position{index % across, index / across % down}}
		switch h.Kind {
		case KindOverview:
			// Tiles of levels that are made from other levels are made again. A tile older than one
			// of its blocks' pixels was made from earlier ones.
			if _, complete := missing[p]; !complete || index >= across*down || s.newestSection(p) > h.Offset {
				continue
			}
			missing[p] = false
		case KindTile:
			if old := s.levels[lev].tiles[index].ref(); old.Bytes == 0 || old.Offset > h.Offset {
				continue
			}
		}
		for _, t := range entries {
			s.levels[lev].tiles[t.index] = newTile(h.DataOffset()+int64(t.offset), t.length, t.final)
		}
	}
	for _, t := range r.complete {
		if missing[t] {
			if err := s.buildOverviewTile(r.e, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries reads the tables of a record of tiles, one for each plane. The first must have this
// index, and each other one that of the tile before plus step.
func (r *Resume) entries(h *Head, planes, index, step int) ([]recordTile, bool) {
	const entryBytes = 12
	if h.MetaBytes != int64(planes*entryBytes) {
		return nil, false
	}
	b := make([]byte, h.MetaBytes)
	if _, err := r.s.file.ReadAt(b, h.Offset+HeadBytes); err != nil {
		return nil, false
	}
	d, offset := Decoder{Rest: b}, 0
	var list []recordTile
	for plane := range planes {
		t := recordTile{index: d.Uint32(), offset: offset, length: d.Uint32()}
		t.final = d.Uint32() == 1
		if t.index != index+plane*step || t.length < tiffwrite.FrameBytes || t.final && !r.known {
			return nil, false
		}
		offset += t.length
		list = append(list, t)
	}
	return list, int64(offset) == h.DataBytes
}

// newestSection returns the offset of the last of the sections that an overview tile is made from.
func (s *Spool) newestSection(t levelTile) (newest int64) {
	blocks := &s.l.levels[t.level].blocks
	w := s.l.tileWindow(t.level, t.col, t.row)
	for r := w.Row / blocks.WindowHeight; r*blocks.WindowHeight < w.Row+w.Height; r++ {
		for c := w.Col / blocks.WindowWidth; c*blocks.WindowWidth < w.Col+w.Width; c++ {
			newest = max(newest, s.sections[r*blocks.Cols()+c])
		}
	}
	return newest
}
