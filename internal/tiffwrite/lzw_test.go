package tiffwrite

import (
	"bytes"
	"io"
	"testing"

	"golang.org/x/image/tiff/lzw"

	"leat/internal/tiff"
)

// FuzzLZW compares the decoder with golang.org/x/image's and with the encoder.
func FuzzLZW(f *testing.F) {
	for _, raw := range [][]byte{nil, []byte("abababababab"), bytes.Repeat([]byte{7}, 9000),
		sceneTile()[:64*64*2]} {
		packed, err := new(lzwEncoder).appendTile(nil, raw, 0)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed, uint16(len(raw)))
	}
	f.Fuzz(func(t *testing.T, data []byte, n uint16) {
		var d tiff.Decoder
		got := make([]byte, n)
		err := d.Decompress(tiff.CompressionLZW, got, data, len(got))
		if len(data) >= 2 && data[0] == 0 && data[1]&1 == 1 { // the old variant, which x/image does not know
			return
		}
		want, wantErr := io.ReadAll(io.LimitReader(lzw.NewReader(bytes.NewReader(data), lzw.MSB, 8), int64(n)))
		if err == nil && (len(want) < int(n) || !bytes.Equal(got, want)) {
			t.Fatalf("%d bytes, x/image reads %d: %v", n, len(want), wantErr)
		}
		packed, e := new(lzwEncoder).appendTile(nil, data, 0)
		if e != nil {
			t.Fatal(e)
		}
		back := make([]byte, len(data))
		if err := d.Decompress(tiff.CompressionLZW, back, packed, len(back)); err != nil || !bytes.Equal(back, data) {
			t.Fatalf("decoding of encoded data: %v", err)
		}
	})
}

func BenchmarkLZW(b *testing.B) {
	raw := sceneTile()
	packed, err := new(lzwEncoder).appendTile(nil, raw, 0)
	if err != nil {
		b.Fatal(err)
	}
	var d tiff.Decoder
	dst := make([]byte, len(raw))
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Decompress(tiff.CompressionLZW, dst, packed, len(dst)); err != nil {
			b.Fatal(err)
		}
	}
}
