package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"leat/internal/gdal"
)

// usageMistakes are command lines with mistakes, after variables that are set. Words are split at
// blanks outside of quotes.
var usageMistakes = []string{
	// leat itself
	"nosuch", "--nosuch", "-x", "help nosuch", "--profile", "completion nosuch", "completion bash more",
	// leat apply: unknown, missing, bad
	"apply --nosuch", "apply -i a=a.tif -e a", "apply -i a=a.tif -o x=x.tif", "apply -o x=x.tif",
	"apply -i", "apply -i a=a.tif -o x=x.tif -e", "apply -i a.tif -o x=x.tif -e a", "apply -i a=a.tif -o x= -e a",
	"apply -i a=a.tif -o x=x.tif -e a more", "apply -i a=a.tif -o x=x.tif -e 'a +'", "apply -i a=a.tif -o x=x.tif -e b",
	"apply -i a=a.tif -o x=x.tif -e y=a", "apply -i a=a.tif -o x=x.tif -o x=y.tif -e a",
	"apply -i a=a.tif -o x=x.tif -e a --type uint9", "apply -i a=a.tif -o x=x.tif -e a --type y=uint8",
	"apply -i a=a.tif -o x=x.tif -e a --nodata maybe", "apply -i a=a.tif -o x=x.tif -e a --type uint8 --nodata 300",
	"apply -i a=a.tif -o x=x.tif -e a --scale 0", "apply -i a=a.tif -o x=x.tif -e a --offset inf",
	"apply -i a=a.tif -o x=x.tif -e a --co NOSUCH=1", "apply -i a=a.tif -o x=x.tif -e a --co COMPRESS=NOSUCH",
	"apply -i a=a.tif -o x=x.tif -e a --co COMPRESS", "apply -i a=a.tif -o x=x.tif -e a --overviews 3",
	"apply -i a=a.tif -o x=x.tif -e a --overviews x", "apply -i a=a.tif -o x=x.tif -e a --overview-method sum",
	"apply -i a=a.tif -o x=x.tif -e a --cog --overviews 2", "apply -i a=a.tif -o x=x.tif -e a --names b,c",
	"apply -i a=a.tif -o x=x.tif -e a --metadata item", "apply -i a=a.tif -o x=x.tif -e a --nodata-collision never",
	"apply -i a=a.tif -o x=x.tif -e a --bands a=0", "apply -i a=a.tif -o x=x.tif -e a --bands a=x",
	"apply -i a=a.tif -o x=x.tif -e a --bands b=1", "apply -i a=a.tif -o x=x.tif -e a --input-nodata a=x",
	"apply -i a=a.tif -o x=x.tif -e a --footprint some", "apply -i a=a.tif -o x=x.tif -e a --bbox 1,2,3",
	"apply -i a=a.tif -o x=x.tif -e a --srcwin 0,0,0,0", "apply -i a=a.tif -o x=x.tif -e a --resample cubic",
	"apply -i a=a.tif -o x=x.tif -e a --reference a --resample nosuch", "apply -i a=a.tif -o x=x.tif -e a --reference a --grid a.tif",
	"apply -i a=a.tif -o x=x.tif -e a --grid EPSG:32631,1,2", "apply -i a=a.tif -o x=x.tif -e a -j 0",
	"apply -i a=a.tif -o x=x.tif -e a -j many", "apply -i a=a.tif -o x=x.tif -e a --readers -1",
	"apply -i a=a.tif -o x=x.tif -e a --memory lots", "apply -i a=a.tif -o x=x.tif -e a --window 0",
	"apply -i a=a.tif -o x=x.tif -e a --on nosuch", "apply -i a=a.tif -o x=x.tif -e a --workers 3",
	"apply -i a=a.tif -o x=x.tif -e a --on subprocess -j 2", "apply -i a=a.tif -o x=x.tif -e a --on subprocess --workers 0",
	"apply -i a=a.tif -o x=x.tif -e a --on awsbatch", "apply -i a=a.tif -o x=x.tif -e a --on slurm --aws-queue q",
	"apply -i a=a.tif -o x=x.tif -e a --barrier soon", "apply -i a=a.tif -o x=x.tif -e a --preview x.jpg",
	"apply -i a=a.tif -o x=x.tif -e a --serve nosuch:port:0", "apply -i a=a.tif -o x=x.tif -e a --retry-for soon",
	"apply -i a=a.tif -o x=x.tif -e a --stage-bytes many", "apply -i a=a.tif -o x=x.tif -e a --endpoint ftp://x",
	"apply -i a=a.tif -o x=x.tif -e a --plan=maybe", "apply -i a=a.tif -o x=x.tif -e a --quiet --verbose=perhaps",
	"apply -i a=a.tif -v v -o x=x.tif -e a", "apply -i a=a.tif -o x=x.tif -e a --burn v=1",
	"apply -i a=a.tif -o x=x.tif -e a --profile nosuch", "apply --discard", "apply -i a=a.tif -o x=x.tif -e a --overlap 3",
	"apply -i a=a.tif -o x=x.tif -e a --margin 3", "apply -A a.tif --calc A", "apply -i a=ftp://host/a.tif -o x=x.tif -e a",
	"apply -i a=a.tif -o x=x.tif -e a --input-scale a", "apply -i a=a.tif -o x=x.tif -e a --input-scale a=0",
	"apply -i a=a.tif -o x=x.tif -e a --input-scale a=nan", "apply -i a=a.tif -o x=x.tif -e a --input-scale a=1,inf",
	"apply -i a=a.tif -o x=x.tif -e a --input-scale a=1,2,3", "apply -i a=a.tif -o x=x.tif -e a --input-scale b=2",
	"apply -i a=a.tif -o x=x.tif -e a --input-scale 2", "apply -i a=https://host/*.tif -o x=x.tif -e 'mean(a)'",
	"apply -i 'a=[.tif' -o x=x.tif -e 'mean(a)'", "apply -i 'a=s3://b[a]/*.tif' -o x=x.tif -e 'mean(a)'",
	"apply -i 'a=s3://b/[.tif' -o x=x.tif -e 'mean(a)'",
	"apply -i a=a.tif -o x=x.tif -e a --group day", "apply -i a=items.json#red -o x=x.tif -e 'mean(a)' --group week",
	"apply -i a=items.json#blue -o x=x.tif -e 'mean(a)'", "apply -i a=items.json# -o x=x.tif -e 'mean(a)'",
	"apply -i a=a.tif -o x=x.tif -e a --pixel-size 0", "apply -i a=a.tif -o x=x.tif -e a --pixel-size x",
	"apply -i a=a.tif -o x=x.tif -e a --pixel-size 1,2,3", "apply -i a=a.tif -o x=x.tif -e a --pixel-size 30 --grid a.tif",
	"apply -i a=a.tif -o x=x.tif -e a --pixel-size inf", "apply -i a=a.tif -o x=x.tif -e a --crs EPSG:4326",
	"apply -i a=a.tif -o x=x.tif -e a --bbox-crs EPSG:4326", "apply -i a=a.tif -o x=x.tif -e a --bbox 0,0,inf,1 --bbox-crs EPSG:4326",
	"apply -i a=a.tif -o x=x.tif -e a --bbox 2,0,1,1 --bbox-crs EPSG:4326", "apply -i cutline=a.tif -o x=x.tif -e 1 --cutline z.gpkg",
	"apply -i a=a.tif -o x=x.tif -e a --extent a.tif --bbox 1,2,3,4 --bbox-crs EPSG:4326",
	"apply -i a=a.tif -o x=x.tif -e a --where 'cutline=class = 2'",
	// variables and the configuration file
	"LEAT_MEMORY=lots apply -i a=a.tif -o x=x.tif -e a", "LEAT_JOBS=0 apply -i a=a.tif -o x=x.tif -e a",
	"LEAT_ON=nosuch apply -i a=a.tif -o x=x.tif -e a", "LEAT_RETRY_FOR=soon apply -i a=a.tif -o x=x.tif -e a",
	"LEAT_STAGE_DIR=relative apply -i a=a.tif -o x=x.tif -e a", "LEAT_ENDPOINT=x apply -i a=a.tif -o x=x.tif -e a",
	"LEAT_PROFILE=nosuch apply -i a=a.tif -o x=x.tif -e a", "LEAT_CONFIG=nosuch apply -i a=a.tif -o x=x.tif -e a",
	"LEAT_CONFIG=bad.conf apply -i a=a.tif -o x=x.tif -e a", "LEAT_CONFIG=bad.conf config show",
	// leat info, demo, version, config, worker
	"info", "info --nosuch a.tif", "info --retry-for soon a.tif", "demo --size 0 d", "demo --size x d", "demo one two",
	"version more", "version --nosuch", "config nosuch", "config show more", "config path more", "worker more",
	// leat stage
	"stage nosuch", "stage get", "stage get a.tif", "stage get --max-bytes x s3://b/k", "stage get --min-free 7 s3://b/k",
	"stage get --evict some s3://b/k", "stage get --workers 0 s3://b/k", "stage get --max-age x s3://b/k",
	"stage get --json -o - s3://b/k", "stage get --metrics x:y:z s3://b/k", "stage get --overwrite s3://b/k", "stage prefetch",
	"stage pin", "stage ls more", "stage stat more", "stage gc --older x", "stage gc --bytes x",
	"stage gc --all --bytes 1G",
	// leat cache
	"cache nosuch", "cache create", "cache create c.cache", "cache create c.cache x", "cache create c.cache 3 --max-bytes x",
	"cache create c.cache 3 --durability some", "cache put c.cache", "cache put c.cache x", "cache put c.cache -1",
	"cache get c.cache", "cache get c.cache x", "cache ls a b", "cache stat", "cache check", "cache preserve", "cache upgrade", "cache export c.cache",
	"cache import c.pfio", "cache import c.pfio x c.cache",
	// leat jobs
	"jobs nosuch", "jobs ls more", "jobs show", "jobs show a b", "jobs gc more", "jobs ls --nosuch",
}

// hintedMistakes maps command lines that exit with 2 to a regular expression that matches the
// message, or "hint: " and one that matches a hint.
var hintedMistakes = []struct{ line, says string }{
	// Misspelt commands, and those of other tools.
	{"aply", "hint: did you mean apply\\?"}, {"inof a.tif", "hint: did you mean info\\?"}, {"calc", "hint: did you mean apply\\?"},
	{"help expresions", "hint: did you mean expressions\\?"}, {"stage prefech x", "hint: did you mean prefetch\\?"},
	{"stage fetch x", "hint: did you mean get\\?"}, {"jobs list", "hint: did you mean ls\\?"},
	{"cache creat c", "hint: did you mean create\\?"}, {"cache status c", "hint: did you mean stat\\?"},
	{"cache rm c", "hint: did you mean gc\\?"}, {"config shwo", "hint: did you mean show\\?"},
	{"-i a=a.tif", "hint: write it behind the command, such as leat apply -i"},
	// Misspelt options, and those of other tools.
	{"apply A --outputs y", "hint: did you mean --output\\?"}, {"apply --tpye uint8", "hint: did you mean --type\\?"},
	{"apply --compres LZW", "hint: use --co COMPRESS=NAME"}, {"version --jsn", "hint: did you mean --json\\?"},
	{"apply -A a.tif --calc A*2 --outfile=x.tif --NoDataValue=0 -co K=V",
		"hint: -A: use -i A=FILE; --calc: use -e 'EXPRESSION'; --outfile: use -o NAME=FILE.tif; --NoDataValue: use --nodata; -co: use --co"},
	{"apply -i a=a.tif -o x=x.tif -e a -ot Float32", "hint: -ot: use --type"},
	{"apply -i a=a.tif -o x=x.tif -e a -of GTiff", "hint: -of: use --format"},
	{"apply -i a=a.tif -o x=x.tif -e a -tr 30 30", "hint: use --pixel-size"}, {"apply --threads 4", "hint: use -j"},
	{"info --format", "hint: did you mean --formats\\?"},
	// Values of options.
	{"apply A --type flaot32", "hint: did you mean float32\\?"}, {"apply A --type int", "hint: did you mean int32\\?"},
	{"apply A --type CFloat32", "hint: complex pixels can't be written"}, {"apply A --type short", "hint: did you mean int16\\?"},
	{"apply A --reference a --resample biliner", "hint: did you mean bilinear\\?"},
	{"apply A --reference a --resample linear", "hint: did you mean bilinear\\?"},
	{"apply A --reference a --resample majority", "hint: did you mean mode\\?"},
	{"apply A --co COMPRES=LZW", "hint: did you mean COMPRESS\\?"}, {"apply A --co COMPRESS=DEFLAT", "hint: did you mean DEFLATE\\?"},
	{"apply A --on slrum", "hint: did you mean slurm\\?"}, {"apply A --footprint intersect", "hint: did you mean intersection\\?"},
	{"apply A --overview-method averge", "hint: did you mean average\\?"},
	{"apply A --nodata-collision errors", "hint: did you mean error\\?"},
	{"apply A --color-interp gren", "hint: did you mean green\\?"}, {"apply A --grid EPSG:4326", "hint: a grid by numbers is written as EPSG:"},
	{"apply A --type ndiv=uint8", "there is no output \"ndiv\"; there is x"}, {"apply A --bands b=1", "there is no input \"b\"; there is a"},
	{"apply -i red=a.tif -o x=x.tif -e red --bands rde=1", "hint: did you mean red\\?"},
	{"apply -i red=a.tif -o x=x.tif -e red --reference rde", "hint: did you mean red\\?"},
	{"apply -i red=a.tif -o x=x.tif -e red --reference red --use-overviews rde", "hint: did you mean red\\?"},
	{"apply -i a=a.tif -o ndvi=x.tif -e ndiv=a", "hint: did you mean ndvi\\?"},
	{"apply -v roads=r.gpkg -i a=a.tif -o x=x.tif -e a --burn raods=1", "hint: did you mean roads\\?"},
	{"stage get --evict lur s3://b/k", "hint: did you mean lru\\?"}, {"stage get s4://b/k", "hint: did you mean s3\\?"},
	{"cache create new.cache 3 --durability eahc", "hint: did you mean each\\?"},
	{"apply -i a=s4://b/k -o x=x.tif -e a", "hint: did you mean s3\\?"}, {"apply -i a=http:/b/k -o x=x.tif -e a", "hint: did you mean http://b/k\\?"},
	{"apply -i a=- -o x=x.tif -e a", "- is not a raster"}, {"apply -i a=a.tif -o - -e a", "- is not a raster"}, {"info -", "- is not a raster"},
	// Expressions.
	{"apply -i red=a.tif -o x=x.tif -e 'rde + 2'", "hint: did you mean red\\?"}, {"apply B -e 'A + 2'", "hint: did you mean a\\?"},
	{"apply B -e 'medain(a)'", "hint: did you mean median\\?"}, {"apply B -e 'SQRT(a)'", "hint: did you mean sqrt\\?"},
	{"apply B -e 'frob(a)'", "hint: leat help expressions lists the functions"}, {"apply B -e 'power(a, 2)'", "hint: write a \\*\\* b"},
	{"apply B -e 'logical_and(a > 3, a < 5)'", "hint: write a and b"}, {"apply B -e 'int(a)'", "hint: write floor\\(a\\); --type"},
	{"apply B -e 'numpy.where(a > 3, 1, 0)'", "write where\\(...\\) without numpy"}, {"apply B -e 'a > 3 ? a : np.nan'", "write nan without np"},
	{"apply B -e 'np.nanmedian(a)'", "write median\\(list\\)"}, {"apply B -e 'maximum(a, 3)'", "write max\\(a, b\\)"},
	{"apply B -e 'a.astype(float)'", "write float32\\(a\\) or float64\\(a\\)"}, {"apply B -e 'a.mean()'", "write mean\\(...\\)"},
	{"apply B -e 'a ^ 2'", "write \\*\\* for a power"}, {"apply B -e 'a && a'", "write 'and'"}, {"apply B -e 'a AND a'", "write and"},
	{"apply B -e '!a'", "write 'not'"}, {"apply B -e 'a <> 3'", "write !="}, {"apply B -e 'a // 2'", "write floor\\(a / b\\)"},
	{"apply B -e '1 if a > 3 else 0'", "write condition \\? a : b"}, {"apply B -e 'if(a > 3, 1, 0)'", "write condition \\? a : b"},
	{"apply B -e a@1", "write a\\[2\\] for a band"}, {"apply B -e im1b2", "hint: write NAME\\[2\\] for band 2 of an input"},
	{"apply B -e a[0]", "bands count from 1"}, {"apply B -e 'a ≥ 2'", "write >="}, {"apply B -e 'a – 2'", "write -"},
	{"apply B -e None", "hint: write nodata for the invalid value"}, {"apply B -e True", "hint: write 1 for true"},
	{"apply B -e a + 2", "in quotes, as in -e 'a \\+ b'"},
	// Variables and the configuration file.
	{"LEAT_CONFIG=bad.conf apply A", "hint: see leat config --help; leat config path prints where the file is"},
	{"LEAT_CONFIG=bad.conf stage ls", "hint: see leat config --help"}, {"LEAT_PROFILE=nosuch info a.tif", "hint: see leat config --help"},
	{"LEAT_ON=slrum apply A", "hint: did you mean slurm\\?"}, {"LEAT_MEMORY=lots apply A", "hint: see leat help environment"},
	{"LEAT_CONFIG=misspelt.conf info a.tif", "did you mean memory\\?"},
	// Nothing is guessed where nothing is similar.
	{"apply --nosuch", "hint: see leat apply --help"}, {"nosuch", "hint: see leat --help"},
}

// formatMistakes are mistakes in the names of formats, which GDAL lists.
var formatMistakes = []struct{ line, says string }{
	{"apply A --format netcf", "is it netCDF"}, {"apply A --format netCDF", "hint: use --format GTiff"},
	{"info --formats GTif", "is it GTiff"},
}

func TestUsageMistakesHaveHints(t *testing.T) {
	t.Parallel()
	if len(hintedMistakes) < 60 {
		t.Fatalf("%d command lines, expected at least 60", len(hintedMistakes))
	}
	mistakes := hintedMistakes
	if gdal.Available() == nil {
		mistakes = slices.Concat(mistakes, formatMistakes)
	}
	dir, env := mistakesDir(t)
	before := hashFiles(t, dir)
	var lines []string
	for _, m := range mistakes {
		lines = append(lines, strings.NewReplacer("apply A", "apply -i a=a.tif -o x=x.tif -e a", "apply B", "apply -i a=a.tif -o x=x.tif").Replace(m.line))
	}
	for i, r := range runMistakes(t, dir, env, lines) {
		if r.Code != exitUsage || r.Stdout != "" {
			t.Errorf("leat %s: exit code %d\n%s%s", lines[i], r.Code, r.Stdout, r.Stderr)
		}
		if says := mistakes[i].says; !regexp.MustCompile("(?m)" + strings.Replace(says, "hint: ", "^hint: ", 1)).MatchString(r.Stderr) {
			t.Errorf("leat %s: expected %q\n%s", lines[i], says, r.Stderr)
		}
	}
	if after := hashFiles(t, dir); after != before {
		t.Errorf("files were touched: %v", names(t, dir))
	}
}

func TestUsageMistakesExitWithTwo(t *testing.T) {
	t.Parallel()
	if len(usageMistakes) < 60 {
		t.Fatalf("%d command lines, expected at least 60", len(usageMistakes))
	}
	dir, env := mistakesDir(t)
	before := hashFiles(t, dir)
	for i, r := range runMistakes(t, dir, env, usageMistakes) {
		if r.Code != exitUsage {
			t.Errorf("leat %s: exit code %d\n%s%s", usageMistakes[i], r.Code, r.Stdout, r.Stderr)
		}
		if !strings.HasPrefix(r.Stderr, "leat: ") || r.Stdout != "" {
			t.Errorf("leat %s: standard output %q, standard error %q", usageMistakes[i], r.Stdout, r.Stderr)
		}
	}
	// The code is that of the process too.
	for _, line := range []string{"nosuch", "apply -i a=a.tif -o x=x.tif -e b"} {
		leat(t, exitUsage, dir, shellWords(line)...)
	}
	if after := hashFiles(t, dir); after != before {
		t.Errorf("files were touched: %v", names(t, dir))
	}
}

// mistakesDir makes a directory with files for mistakes, and returns the environment for them, in
// which requests are refused.
func mistakesDir(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	leat(t, exitDone, dir, "demo", "--size", "64", ".")
	for _, f := range []struct{ name, text string }{{"x.tif", "untouched"}, {"c.cache", "untouched"},
		{"bad.conf", "nosuch = 1\n"}, {"misspelt.conf", "[minio]\nmemroy = 1G\n"},
		{"items.json", `{"type":"FeatureCollection","features":[{"type":"Feature","id":"i","properties":{"datetime":"2024-06-01"},"assets":{"red":{"href":"a.tif"}}}]}`}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(dir, "B04.tif"), filepath.Join(dir, "a.tif")); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	env = append(os.Environ(), "HOME="+home, "LEAT_CACHE_DIR="+filepath.Join(home, "cache"))
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		env = append(env, name+"=http://127.0.0.1:1")
	}
	return dir, env
}

// ranMistake is how leat ended with a command line, and what it printed.
type ranMistake struct {
	Code           int
	Stdout, Stderr string
}

// runMistakes runs leat in dir with the words of each line, which may begin with variables to set.
// One process runs all lines: the start of a process takes longer than a mistake.
func runMistakes(t *testing.T, dir string, env, lines []string) []ranMistake {
	t.Helper()
	in, err := json.Marshal(lines)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	like, _ := process(t, dir)
	var out, messages bytes.Buffer
	c := exec.CommandContext(ctx, like.Path)
	c.Args, c.Dir, c.Env = []string{"mistakes"}, dir, env
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(in), &out, &messages
	if err := c.Run(); err != nil {
		t.Fatalf("%v after %s\n%s", err, out.String(), messages.String())
	}
	var ran []ranMistake
	for dec := json.NewDecoder(&out); len(ran) < len(lines); {
		var r ranMistake
		if err := dec.Decode(&r); err != nil {
			t.Fatalf("after %q: %v", lines[:len(ran)], err)
		}
		ran = append(ran, r)
	}
	return ran
}

// runLines is the process of runMistakes: it reads the lines as JSON and prints a ranMistake for
// each.
func runLines() {
	if err := printLines(os.Stdin, json.NewEncoder(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func printLines(r io.Reader, w *json.Encoder) error {
	var lines []string
	if err := json.NewDecoder(r).Decode(&lines); err != nil {
		return err
	}
	for _, line := range lines {
		ran, err := runLine(line)
		if err == nil {
			err = w.Encode(ran)
		}
		if err != nil {
			return fmt.Errorf("leat %s: %w", line, err)
		}
	}
	return nil
}

// runLine is main with the words of a line, but returns instead of ending the process.
func runLine(line string) (ran ranMistake, err error) {
	args := shellWords(line)
	for len(args) > 0 && strings.HasPrefix(args[0], "LEAT_") {
		name, value, _ := strings.Cut(args[0], "=")
		if err := os.Setenv(name, value); err != nil {
			return ran, err
		}
		defer os.Unsetenv(name)
		args = args[1:]
	}
	var files [2]*os.File
	for i, std := range []**os.File{&os.Stdout, &os.Stderr} {
		if files[i], err = os.CreateTemp("", "mistake"); err != nil {
			return ran, err
		}
		defer os.Remove(files[i].Name())
		defer files[i].Close()
		before := *std
		*std = files[i]
		defer func() { *std = before }()
	}
	os.Args = append([]string{"leat"}, args...)
	ran.Code, _ = run(args)
	for i, text := range []*string{&ran.Stdout, &ran.Stderr} {
		b, err := os.ReadFile(files[i].Name())
		if err != nil {
			return ran, err
		}
		*text = string(b)
	}
	return ran, nil
}

// shellWords splits a line at blanks outside of single quotes.
func shellWords(line string) []string {
	var words []string
	for _, w := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(line, -1) {
		words = append(words, strings.Trim(w, "'"))
	}
	return words
}
