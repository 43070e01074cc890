// Package codec measures the encoder and the decoder of deflate tiles against klauspost's encoder,
// libdeflate and ISA-L.
package codec

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"leat/bench/measured"
	"leat/bench/runner"
	"leat/bench/scene"
	"leat/internal/inflate"
)

// Part measures the encoder and the decoder.
var Part = &runner.Part{Name: "codec", Summary: "encoding and decoding of deflate tiles; libdeflate and ISA-L", Runs: 9,
	Sections: []string{"uint16", "ndvi", "elevation", "classes", "mask", "nodata", "rgb"},
	Flags: func(fs *flag.FlagSet) {
		fs.StringVar(&scenes, "scenes", "", "`directory` with landsat8/l8_B4.tif, rasterio/RGB.byte.tif and so on; -quick leaves them out")
		fs.BoolVar(&encodeOnly, "encode", false, "encoders only")
		fs.BoolVar(&decodeOnly, "decode", false, "decoders only")
	}, Run: run}

var (
	scenes                 string
	encodeOnly, decodeOnly bool
)

// stream is a zlib stream and the tile that it holds.
type stream struct{ packed, raw []byte }

// encoders write the streams: the first in this process, the others in the peer.
var encoders = []string{"leat", "libdeflate", "zlib"}

func run(ctx context.Context, o *runner.Options) (err error) {
	dir, err := os.MkdirTemp(o.Dir, "leat-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	leat, err := scene.Find(ctx, o.Leat, o.Data, dir, o.Say)
	if err != nil {
		return err
	}
	peer, err := startPeer(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, peer.stop()) }()
	sides := []int{256, 512}
	if o.Quick {
		sides = sides[:1]
	}
	images, err := makeImages(ctx, leat, o.Quick)
	if err != nil {
		return err
	}
	if !decodeOnly {
		if err := encodeImages(ctx, peer, dir, images, sides, o); err != nil {
			return err
		}
	}
	if encodeOnly {
		return nil
	}
	return decodeImages(ctx, peer, dir, images, sides, o)
}

// decodeImages measures the decoders on tiles of all images and prints a table.
func decodeImages(ctx context.Context, peer *peer, dir string, images []*image, sides []int, o *runner.Options) error {
	head := []string{"data", "tile", "encoder", "size", "leat MB/s", "libdeflate MB/s", "leat / libdeflate"}
	if peer.isal {
		head = append(head, "ISA-L MB/s")
	}
	rows := [][]string{head}
	for _, im := range images {
		if !o.Only.MatchString(im.kind) {
			continue
		}
		for _, side := range sides {
			tiles := im.tiles(side)
			for _, encoder := range encoders {
				o.Say("%s, tiles of %d by %s", im.name, side, encoder)
				row, err := compare(peer, dir, im, tiles, encoder, o)
				if err != nil {
					return fmt.Errorf("%s, tiles of %d by %s: %w", im.name, side, encoder, err)
				}
				rows = append(rows, append([]string{im.name, fmt.Sprint(side), encoder}, row...))
			}
		}
	}
	fmt.Fprintf(o.Out, "# Decoding deflate\n\n")
	if o.Quick {
		fmt.Fprint(o.Out, runner.QuickNote)
	}
	fmt.Fprintf(o.Out, "Pixels in MB/s (10^6 bytes) of one core's processor time, checksum included; leat decodes two tiles "+
		"at once, as a read does. Streams by leat, level 1, and by libdeflate and zlib, level 6. All decoders give the same bytes. Medians of %d runs in turn, in brackets the "+
		"lowest and the highest.\n\n%s\n\n", o.Runs, measured.Machine(o.Command, scene.Version(ctx)))
	measured.Table(o.Out, rows)
	return nil
}

// compare measures one kind of stream, and returns the end of its row.
func compare(peer *peer, dir string, im *image, tiles [][]byte, encoder string, o *runner.Options) ([]string, error) {
	const base = "tiles" // for the peer, which runs in dir
	file := filepath.Join(dir, base)
	streams := im.encode(tiles)
	if err := writeStreams(file, streams); err != nil {
		return nil, err
	}
	if encoder != encoders[0] {
		if _, err := peer.ask("pack %s %s", encoder, base); err != nil {
			return nil, err
		}
		var err error
		if streams, err = readStreams(file); err != nil {
			return nil, err
		}
	}
	if _, err := peer.ask("load %s", base); err != nil {
		return nil, err
	}
	total, packed := 0, 0
	for _, s := range streams {
		total, packed = total+len(s.raw), packed+len(s.packed)
	}
	d := decoder{out: [2][]byte{make([]byte, len(tiles[0])), make([]byte, len(tiles[0]))}}
	if err := d.decode(streams, true); err != nil {
		return nil, err
	}
	passes := max(1, 30_000_000/total)
	if o.Quick {
		passes = 1
	}
	names := []string{"leat", "libdeflate"}
	if peer.isal {
		names = append(names, "isal")
	}
	rates, ratios := make([][]float64, len(names)), []float64(nil)
	for round := range o.Runs + 1 { // the first warms up
		for i, name := range names {
			var taken time.Duration
			var err error
			if name == "leat" {
				taken, err = threadTime(func() error {
					for range passes {
						if err := d.decode(streams, false); err != nil {
							return err
						}
					}
					return nil
				})
			} else {
				taken, err = peer.time(name, passes)
			}
			if err != nil {
				return nil, err
			}
			if round > 0 {
				rates[i] = append(rates[i], float64(total)*float64(passes)/1e6/max(taken, time.Nanosecond).Seconds())
			}
		}
		if round > 0 {
			ratios = append(ratios, rates[0][round-1]/rates[1][round-1])
		}
	}
	row := []string{fmt.Sprintf("%.1f %%", 100*float64(packed)/float64(total)), spread(rates[0], "%.0f"), spread(rates[1],
		"%.0f"), spread(ratios, "%.2f")}
	for _, r := range rates[2:] {
		row = append(row, spread(r, "%.0f"))
	}
	return row, nil
}

// decoder decodes streams as a read decodes tiles, two at once.
type decoder struct {
	pair inflate.Pair
	out  [2][]byte
}

// decode decodes all streams and, with check, compares the bytes.
func (d *decoder) decode(streams []stream, check bool) error {
	for ; len(streams) > 0; streams = streams[min(2, len(streams)):] {
		var n [2]int
		var errs [2]error
		if len(streams) == 1 {
			n[0], errs[0] = d.pair.One(d.out[0][:len(streams[0].raw)], streams[0].packed)
		} else {
			n[0], errs[0], n[1], errs[1] = d.pair.Both(d.out[0][:len(streams[0].raw)], streams[0].packed,
				d.out[1][:len(streams[1].raw)], streams[1].packed)
		}
		for i, s := range streams[:min(2, len(streams))] {
			err := errs[i]
			if err == nil && check && !bytes.Equal(d.out[i][:n[i]], s.raw) {
				err = errors.New("the decoded bytes differ from those encoded")
			}
			if err != nil {
				return fmt.Errorf("decoding: %d of %d bytes: %w", n[i], len(s.raw), err)
			}
		}
	}
	return nil
}

// spread is the median with the lowest and the highest.
func spread(v []float64, format string) string {
	s := slices.Sorted(slices.Values(v))
	return fmt.Sprintf(format+" ("+format+"-"+format+")", (s[(len(s)-1)/2]+s[len(s)/2])/2, s[0], s[len(s)-1])
}

// threadTime returns the processor time that f takes on a thread of its own.
func threadTime(f func() error) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var a, b unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &a); err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &b)
	return time.Duration(b.Nano() - a.Nano()), err
}

func writeStreams(file string, streams []stream) error {
	var all []byte
	for _, s := range streams {
		all = binary.LittleEndian.AppendUint32(all, uint32(len(s.packed)))
		all = binary.LittleEndian.AppendUint32(all, uint32(len(s.raw)))
		all = append(append(all, s.packed...), s.raw...)
	}
	return os.WriteFile(file, all, 0o600)
}

func readStreams(file string) (streams []stream, err error) {
	all, err := os.ReadFile(file)
	for err == nil && len(all) > 0 {
		if len(all) < 8 {
			return nil, errors.New("the peer's file is short")
		}
		n, m := int(binary.LittleEndian.Uint32(all)), int(binary.LittleEndian.Uint32(all[4:]))
		if all = all[8:]; len(all) < n+m {
			return nil, errors.New("the peer's file is short")
		}
		streams = append(streams, stream{all[:n], all[n : n+m]})
		all = all[n+m:]
	}
	return streams, err
}
