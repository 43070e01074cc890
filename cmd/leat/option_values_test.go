package main

import (
	"strings"
	"testing"
)

// givenTwice are command lines that give an option with a value twice for the same input, output or
// vector.
var givenTwice = []string{
	"--type uint8 --type int8", "--type x=uint8 --type x=int8", "--count 1 --count 1", "--nodata 0 --nodata x=1 --nodata x=2",
	"--scale 1 --scale 2", "--offset 1 --offset 2", "--format GTiff --format x=GTiff --format GTiff",
	"--names b,c --names d", "--names x=b --names x=c", "--color-table t --color-table u", "--metadata A=1 --metadata A=2",
	"--color-interp gray --color-interp 1:red", "--color-interp x=gray --color-interp x=gray",
	"--co LEVEL=1 --co LEVEL=2", "--co LEVEL=1 --co ZLEVEL=2", "--co x=COMPRESS=LZW --co x=compress=ZSTD",
	"--bands a=1 --bands a=2", "--input-nodata a=1 --input-nodata a=2", "--input-nodata v=1 --input-nodata v=2",
	"--input-scale a=1 --input-scale a=2", "--times auto --times auto", "--times a=auto --times a=auto",
	"--reference a --resample near --resample near", "--reference a --resample a=near --resample a=near",
	"--reference a --use-overviews a --use-overviews a", "--sieve 1 --sieve 2",
	"--layer v=0 --layer v=1", "--burn v=1 --burn v=2", "--where v=a --where v=b", "--sql v=a --sql v=b", "--null v=1 --null v=2",
	"--vector-type v=uint8 --vector-type v=int8", "--all-touched v --all-touched v",
}

func TestOptionsGivenTwiceAreMistakes(t *testing.T) {
	t.Parallel()
	dir, env := mistakesDir(t)
	var lines []string
	for _, options := range givenTwice {
		lines = append(lines, "apply -i a=a.tif -v v=v.gpkg -o x=x.tif -e 'a + v' "+options)
	}
	for i, r := range runMistakes(t, dir, env, lines) {
		words := strings.Fields(givenTwice[i])
		last := strings.Join(words[len(words)-2:], " ")
		if r.Code != exitUsage || !strings.Contains(r.Stderr, "leat: "+last+": it is given ") {
			t.Errorf("leat %s: exit code %d\n%s", lines[i], r.Code, r.Stderr)
		}
	}
}

func TestValueForOneReplacesThatForAll(t *testing.T) {
	t.Parallel()
	dir, env := mistakesDir(t)
	const job = "apply --plan --json -i a=a.tif -o x=o.tif -o y=y.tif -e x=a -e y=a "
	var lines []string
	for _, options := range []string{"--type x=uint8 --type int32", "--type int32 --type x=uint8"} {
		lines = append(lines, job+options)
	}
	for i, r := range runMistakes(t, dir, env, lines) {
		if r.Code != exitDone || !strings.Contains(r.Stdout, `"uint8"`) || !strings.Contains(r.Stdout, `"int32"`) {
			t.Errorf("leat %s: exit code %d\n%s%s", lines[i], r.Code, r.Stdout, r.Stderr)
		}
	}
}

func TestCreationOptionForOneReplacesThatForAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leat(t, exitDone, dir, "demo", "--size", "64", ".")
	leat(t, exitDone, dir, "apply", "-i", "a=B04.tif", "-o", "x=x.tif", "-o", "y=y.tif", "-e", "x=a", "-e", "y=a",
		"--co", "x=COMPRESS=LZW", "--co", "COMPRESS=ZSTD", "--color-interp", "y=1:alpha", "--color-interp", "gray")
	for file, want := range map[string][2]string{"x.tif": {"lzw", "gray"}, "y.tif": {"zstd", "alpha"}} {
		out := leat(t, exitDone, dir, "info", "--json", file)
		for _, word := range want {
			if !strings.Contains(out, `"`+word+`"`) {
				t.Errorf("%s has no %s:\n%s", file, word, out)
			}
		}
	}
}
