package codec

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"leat/bench/measured"
	"leat/bench/runner"
	"leat/bench/scene"
	"leat/internal/tiffwrite"
	"leat/ndarray"
)

// encodeImages measures the encoders on tiles of all images and prints a table.
func encodeImages(ctx context.Context, peer *peer, dir string, images []*image, sides []int, o *runner.Options) error {
	head := []string{"data", "tile", "leat MB/s", "size", "klauspost", "size", "libdeflate 1", "size", "leat / klauspost"}
	if peer.isal {
		head = append(head, "ISA-L 1", "size", "leat / ISA-L")
	}
	rows := [][]string{head}
	for _, im := range images {
		for _, side := range sides {
			if !o.Only.MatchString(im.kind) {
				continue
			}
			o.Say("encoding %s, tiles of %d", im.name, side)
			row, err := compareEncoders(peer, dir, im, side, o)
			if err != nil {
				return fmt.Errorf("encoding %s, tiles of %d: %w", im.name, side, err)
			}
			rows = append(rows, append([]string{im.name, fmt.Sprint(side)}, row...))
		}
	}
	fmt.Fprintf(o.Out, "# Encoding deflate\n\n")
	if o.Quick {
		fmt.Fprint(o.Out, runner.QuickNote)
	}
	fmt.Fprintf(o.Out, "Pixels in MB/s (10^6 bytes) of one core's processor time, checksum included, predictor not: leat's "+
		"encoder; klauspost's at level 2 after predictors and 6 without; libdeflate and ISA-L at "+
		"level 1. All encode the same tiles, after the predictor. Medians of %d runs in turn, in brackets the lowest and the highest.\n\n%s\n\n", o.Runs,
		measured.Machine(o.Command, scene.Version(ctx)))
	measured.Table(o.Out, rows)
	return nil
}

// compareEncoders returns the columns of an image's row that compare encoders.
func compareEncoders(peer *peer, dir string, im *image, side int, o *runner.Options) ([]string, error) {
	const base = "tiles"
	tiles := im.tiles(side)
	if err := writeStreams(filepath.Join(dir, base), im.encode(tiles)); err != nil {
		return nil, err
	}
	if _, err := peer.ask("load %s", base); err != nil { // decodes leat's streams too
		return nil, err
	}
	total := 0
	for _, t := range tiles {
		total += len(t)
	}
	passes := max(1, 30_000_000/total)
	if o.Quick {
		passes = 1
	}
	names := []string{"leat", "klauspost", "libdeflate"}
	if peer.isal {
		names = append(names, "isal")
	}
	rates, sizes, ratios := make([][]float64, len(names)), make([]int, len(names)), make([][]float64, len(names))
	for round := range o.Runs + 1 { // the first warms up
		for i, name := range names {
			var taken time.Duration
			var err error
			switch name {
			case "leat":
				taken, sizes[i], err = im.timeDeflate(tiles, passes)
			case "klauspost":
				taken, sizes[i], err = im.timeKlauspost(tiles, passes)
			default:
				taken, sizes[i], err = peer.encode(name, passes)
			}
			if err != nil {
				return nil, err
			}
			if round > 0 {
				rates[i] = append(rates[i], float64(total)*float64(passes)/1e6/max(taken, time.Nanosecond).Seconds())
				ratios[i] = append(ratios[i], rates[0][round-1]/rates[i][round-1])
			}
		}
	}
	var row []string
	for i := range names {
		row = append(row, spread(rates[i], "%.0f"), fmt.Sprintf("%.3g %%", 100*float64(sizes[i])/float64(total)))
		if n := len(names); i == 2 {
			row = append(row, spread(ratios[1], "%.2f"))
		} else if i == n-1 && i > 2 {
			row = append(row, spread(ratios[i], "%.2f"))
		}
	}
	return row, nil
}

// timeDeflate returns the processor time of leat's encoder and the bytes of the streams.
func (im *image) timeDeflate(tiles [][]byte, passes int) (taken time.Duration, bytes int, err error) {
	e := im.newEncoder(tiles[0])
	var out []byte
	taken, err = threadTime(func() error {
		for range passes {
			bytes = 0
			for _, t := range tiles {
				out = e.AppendZlib(out[:0], t)
				bytes += len(out)
			}
		}
		return nil
	})
	return taken, bytes, err
}

// timeKlauspost returns the same for klauspost's encoder, at level 2 after predictors and 6
// without. Chunks that hardly shrink are also coded without matches.
func (im *image) timeKlauspost(tiles [][]byte, passes int) (taken time.Duration, bytes int, err error) {
	shape := tiffwrite.TileShape{Width: len(tiles[0]) / 16, Height: 16, Samples: 1, Type: ndarray.Uint8}
	level := 6
	if im.predictor == 3 || im.predictor == 2 && im.element > 1 {
		level = 2
	}
	e := tiffwrite.NewEncoder(shape, tiffwrite.Coding{Compression: tiffwrite.Deflate, Predictor: 1, Level: level})
	var out []byte
	taken, err = threadTime(func() error {
		for range passes {
			bytes = 0
			for _, t := range tiles {
				var failed error
				out, failed = e.Encode(out[:0], t)
				err = errors.Join(err, failed)
				bytes += len(out) - tiffwrite.FrameBytes
			}
		}
		return err
	})
	return taken, bytes, err
}
