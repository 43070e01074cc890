package colortable

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/raster"
)

func rgba(r, g, b, a uint8) raster.RGBA { return raster.RGBA{R: r, G: g, B: b, A: a} }

func parse(t *testing.T, text string) *Table {
	t.Helper()
	table, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestColumnsOfAllWriters(t *testing.T) {
	want := []raster.RGBA{{}, {R: 1, G: 2, B: 3, A: 255}, {R: 4, G: 5, B: 6, A: 7}, {R: 255, G: 127, A: 255},
		{R: 255, A: 100}}
	for _, text := range []string{
		"1 1 2 3\n2 4 5 6 7\n3 orange\n4 red 100",
		"# a comment\n\n1,1,2,3 # one\r\n2:4:5:6,7\r\n3\tOrange\r\n4,red,100\r\n",
		"\uFEFF# QGIS Generated Color Map Export File\nINTERPOLATION:EXACT\n" +
			"1,1,2,3,255,1\n2,4,5,6,7,2\n3,255,127,0,255,3\n4,255,0,0,100,4\n",
	} {
		table := parse(t, text)
		if p := table.Listed(); !slices.Equal(p.Colors, want) || p.Names != nil || !table.Fixed() {
			t.Errorf("%q gives %v, %v", text, p.Colors, p.Names)
		}
	}
}

func TestNamesOfClasses(t *testing.T) {
	for text, want := range map[string][]string{
		"1 1 2 3 255 open water  # blue\n2 1 2 3":                              {"", "open water"},
		"INTERPOLATION:EXACT\n2,1,2,3,255,oak, beech #3 <x>\n0,1,1,1,255,none": {"none", "", "oak, beech #3 <x>"},
		"0,1,1,1,255,,,x": {",,x"},
	} {
		if p := parse(t, text).Listed(); !slices.Equal(p.Names, want) {
			t.Errorf("%q gives %q, expected %q", text, p.Names, want)
		}
	}
}

// QGIS 3.22 gave these colours (QgsColorRampShader.shade).
func TestRampsOfQGIS(t *testing.T) {
	const entries = "1,10,20,30,255,a\n4,251,0,7,100,b\n"
	linear := parse(t, "INTERPOLATION:INTERPOLATED\n"+entries+"6,1,2,3,255,c\n").Palette(8, -1, 0, 0)
	want := []raster.RGBA{rgba(10, 20, 30, 255), rgba(10, 20, 30, 255), rgba(90, 14, 23, 204), rgba(170, 7, 15, 152),
		rgba(251, 0, 7, 100), rgba(126, 1, 5, 177), rgba(1, 2, 3, 255), rgba(1, 2, 3, 255)}
	if !slices.Equal(linear.Colors, want) || !slices.Equal(linear.Names, []string{"", "a", "", "", "b", "", "c"}) {
		t.Errorf("interpolated: %v, %q", linear.Colors, linear.Names)
	}
	discrete := parse(t, "INTERPOLATION:DISCRETE\n"+entries+"inf,1,2,3,255,c\n").Palette(8, -1, 0, 0)
	a, b, c := want[0], want[4], want[6]
	if !slices.Equal(discrete.Colors, []raster.RGBA{a, a, b, b, b, c, c, c}) ||
		!slices.Equal(discrete.Names, []string{"a", "a", "b", "b", "b", "c", "c", "c"}) {
		t.Errorf("discrete: %v, %q", discrete.Colors, discrete.Names)
	}
	open := parse(t, "INTERPOLATION:DISCRETE\n"+entries).Palette(8, -1, 0, 0)
	if !slices.Equal(open.Colors, []raster.RGBA{a, a, b, b, b}) {
		t.Errorf("discrete without an end: %v", open.Colors)
	}
}

func TestDefaultAndNodata(t *testing.T) {
	table := parse(t, "default 9 9 9\n1 1 1 1\nnv 2 2 2 0 outside\n")
	p := table.Palette(4, 3, 0, 0)
	d := rgba(9, 9, 9, 255)
	if table.Fixed() || !slices.Equal(p.Colors, []raster.RGBA{d, rgba(1, 1, 1, 255), d, rgba(2, 2, 2, 0)}) ||
		!slices.Equal(p.Names, []string{"", "", "", "outside"}) || p.Clear {
		t.Errorf("%v, %q, %v", p.Colors, p.Names, p.Clear)
	}
	if p := table.Palette(4, -1, 0, 0); p.Colors[3] != d {
		t.Errorf("without nodata: %v", p.Colors)
	}
	if !parse(t, "1 0 0 0 0").Listed().Clear {
		t.Error("a colour without opacity is taken for none")
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	for text, line := range map[string]int{
		"1 2 3\n": 1, "1 1 1 1\n\n#\n2 256 0 0": 4, "1 1 1 1 -1": 1, "x 1 2 3": 1, "1 pink": 1, "1 1 1 1\n1 2 2 2": 2,
		"1\n": 1, "1.5 1 2 3": 1, "-1 1 2 3": 1, "65536 1 2 3": 1, "1 1 1 1 x": 1, "101% 1 1 1": 1, "nan 1 1 1": 1,
		"nv 1 1 1\nnv 1 1 1": 2, "INTERPOLATION:CUBIC": 1, "INTERPOLATION:EXACT\n5% 1 1 1": 2,
		"INTERPOLATION:INTERPOLATED\ninf 1 1 1": 2, "1 1 1 1\n\xff": 2, "1 1 1 1 1 a\x00": 1,
		"1 " + strings.Repeat("1", maxLine): 1, "INTERPOLATION:EXACT\nINTERPOLATION:EXACT": 2, "1e-3% 1 1 1\n0.001% 1 1 1": 2,
	} {
		_, err := Parse(strings.NewReader(text))
		if e := new(LineError); !errors.As(err, &e) || e.Line != line {
			t.Errorf("%.40q: %v, expected line %d", text, err, line)
		}
	}
	for _, text := range []string{"", "# nothing\n", "nv 1 1 1\n", "INTERPOLATION:EXACT\n"} {
		if _, err := Parse(strings.NewReader(text)); !errors.Is(err, ErrEmpty) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Parse(strings.NewReader("0% red\ndefault blue")); err == nil {
		t.Error("a default without use is accepted")
	}
}

// TestGDALDEMGivesSameColors compares with gdaldem color-relief, pixel by pixel: all values of
// ramps, and those that have an entry of classes.
func TestGDALDEMGivesSameColors(t *testing.T) {
	if _, err := exec.LookPath("gdaldem"); err != nil {
		t.Skip("no gdaldem")
	}
	const n, nodata = 240, 7
	for _, c := range []struct{ name, text string }{
		{"classes", "# classes\n0 1 2 3\n5,200,100,50,7\n9:aqua\n30\tviolet\n31 1 1 1\n"},
		{"nodata", "0 1 2 3\nnv 5 6 7 8\n"},
		{"percentages", "0% 255 0 3\n12.5% 7 200 100 50\n100% 0 255 10 100\n"},
		{"percentages and values", "10 orange\n50% 0 0 1\n200 255 255 255 0\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			in, colors, out := filepath.Join(dir, "in.asc"), filepath.Join(dir, "colors.txt"), filepath.Join(dir, "out.bin")
			pixels := fmt.Sprintf("ncols %d\nnrows 1\nxllcorner 0\nyllcorner 0\ncellsize 1\nNODATA_value %d\n", n, nodata)
			for v := range n {
				pixels += fmt.Sprint(v, " ")
			}
			for path, text := range map[string]string{in: pixels, colors: c.text} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			text, err := exec.Command("gdaldem", "color-relief", "-q", "-alpha", "-of", "ENVI", in, colors, out).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			raw, err := os.ReadFile(out) // band after band
			if err != nil || len(raw) != 4*n {
				t.Fatalf("%d bytes, %v", len(raw), err)
			}
			table := parse(t, c.text)
			got := table.Palette(n, nodata, 0, n-1).Colors
			compared := 0
			for v := range n {
				if v == nodata && table.Nodata == nil || table.Mode == Exact && v != nodata &&
					!slices.ContainsFunc(table.Entries, func(e Entry) bool { return e.Value == float64(v) }) {
					continue
				}
				compared++
				if want := (raster.RGBA{R: raw[v], G: raw[n+v], B: raw[2*n+v], A: raw[3*n+v]}); got[v] != want {
					t.Errorf("value %d: %v, gdaldem gives %v", v, got[v], want)
				}
			}
			if want := map[Mode]int{Exact: len(table.Entries), Relief: n - 1}[table.Mode]; compared < want {
				t.Errorf("%d values compared, expected %d", compared, want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"1 1 2 3\n2 4 5 6 7 water # x", "nv 1 2 3\ndefault red\n0,1,1,1,255,a, b",
		"# QGIS Generated Color Map Export File\nINTERPOLATION:DISCRETE\n1,1,2,3,255,1\ninf,1,2,3,4,x", "0% red\n100%:1:2:3",
		"INTERPOLATION:INTERPOLATED\n-1e300,1,2,3,4\n1e300,5,6,7,8"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		table, err := Parse(strings.NewReader(text))
		if err != nil {
			if table != nil {
				t.Error("a table and an error")
			}
			return
		}
		for _, n := range []int{0, 256} {
			p := table.Palette(n, 3, -5, 70)
			if len(p.Colors) > MaxValue+1 || len(p.Names) > len(p.Colors) {
				t.Errorf("%d colours, %d names", len(p.Colors), len(p.Names))
			}
		}
	})
}
