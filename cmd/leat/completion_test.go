package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"leat/internal/gdal"
)

// TestCompletion asks leat as the scripts of bash, zsh and fish do: the last word is being typed.
func TestCompletion(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"a.tif", "b.tif", ".hidden.tif"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "scenes"), 0o777); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "config")
	if err := os.WriteFile(config, []byte("[minio]\nregion = x\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LEAT_CONFIG", config)
	job := []string{"apply", "-i", "red=a.tif", "-i", "nir=b.tif", "-v", "roads=r.gpkg", "-o", "ndvi=x.tif", "-o", "mask=y.tif"}
	const space, noSpace = ":4", ":6" // directives: no files, and no blank after the word
	for _, c := range []struct {
		words     []string
		want      string // all of them, or those that it must have, before ...
		directive string
	}{
		{[]string{"--type", "u"}, "uint8 uint16 uint32 uint64", space},
		{[]string{"--type", "ndvi=fl"}, "ndvi=float16 ndvi=float32 ndvi=float64", space},
		{[]string{"--type", "n"}, "ndvi=", noSpace},
		{[]string{"--vector-type", "roads=ui"}, "roads=uint8 roads=uint16 roads=uint32 roads=uint64", space},
		{[]string{"--resample", "bi"}, "bilinear", space}, {[]string{"--resample", "nir=cu"}, "nir=cubic nir=cubicspline", space},
		{[]string{"--resample=nir=cu"}, "nir=cubic nir=cubicspline", space},
		{[]string{"--on", ""}, "subprocess slurm pbs awsbatch", space}, {[]string{"--footprint", "u"}, "union", space},
		{[]string{"--overview-method", "a"}, "average", space}, {[]string{"--nodata-collision", ""}, "warn error", space},
		{[]string{"--nodata", "mask=n"}, "mask=nan mask=none", space}, {[]string{"--color-interp", "gr"}, "gray green", space},
		{[]string{"--co", "COMP"}, "COMPRESS=", noSpace}, {[]string{"--co", "COMPRESS=Z"}, "COMPRESS=ZSTD", space},
		{[]string{"--co", "mask=COMPRESS=L"}, "mask=COMPRESS=LZW", space}, {[]string{"--co", "mask=INT"}, "mask=INTERLEAVE=", noSpace},
		{[]string{"--bands", ""}, "nir= red=", noSpace}, {[]string{"--input-nodata", "ro"}, "roads=", noSpace},
		{[]string{"--use-overviews", ""}, "nir red", space}, {[]string{"--burn", ""}, "roads=", noSpace},
		{[]string{"--all-touched", ""}, "roads", space}, {[]string{"--reference", "n"}, "nir", space},
		{[]string{"--reference", ""}, "a.tif b.tif config scenes/ nir red", noSpace},
		{[]string{"-e", "(nir - r"}, "(nir - red (nir - roads (nir - row (nir - round( (nir - recode( (nir - r2( ...", noSpace},
		{[]string{"-e", "mask=ni"}, "mask=nir", space}, {[]string{"-e", "medi"}, "median(", noSpace}, {[]string{"-e", "nod"}, "nodata", space},
		{[]string{"-e", "@a"}, "@a.tif", space},
		{[]string{"-i", "pan="}, "pan=a.tif pan=b.tif pan=config pan=scenes/", noSpace}, {[]string{"-i", "pan=b"}, "pan=b.tif", space},
		{[]string{"-o", "z=sc"}, "z=scenes/", noSpace}, {[]string{"--profile", "m"}, "minio", space},
	} {
		checkCompletion(t, append(slices.Clone(job), c.words...), c.want, c.directive)
	}
	for _, c := range []struct{ words, want string }{
		{"stage get --evict e", "epochs"}, {"cache create --durability b", "batch"}, {"config show --on s", "subprocess slurm"},
		{"zonal -i v=a.tif -i w=b.tif --use-overviews v", "v"}, {"zonal -i v=a.tif --on p", "pbs"},
		{"zonal --weights c", "centre coverage"}, {"help gr", "grid ..."}, {"ap", "apply ..."},
	} {
		checkCompletion(t, strings.Fields(c.words), c.want, space)
	}
	if gdal.Available() == nil {
		checkCompletion(t, append(slices.Clone(job), "--format", "HF"), "HFA ...", space)
		checkCompletion(t, []string{"info", "--formats", "HF"}, "HFA ...", space)
	}
}

func checkCompletion(t *testing.T, words []string, want, directive string) {
	t.Helper()
	root := rootCommand()
	var out bytes.Buffer
	root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, words...))
	root.SetOut(&out)
	root.SetErr(io.Discard)
	if err := root.Execute(); err != nil {
		t.Errorf("%q: %v", words, err)
		return
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	got := lines[:len(lines)-1]
	if lines[len(lines)-1] != directive {
		t.Errorf("%q: directive %s, not %s", words, lines[len(lines)-1], directive)
	}
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], "\t")
	}
	if want, some := strings.CutSuffix(want, " ..."); some {
		for _, w := range strings.Split(strings.ReplaceAll(want, " (", "\t("), "\t") {
			if !slices.Contains(got, w) {
				t.Errorf("%q: %q has no %s", words, got, w)
			}
		}
		return
	}
	if joined := strings.Join(got, " "); joined != want && strings.Join(slices.Sorted(slices.Values(got)), " ") != want {
		t.Errorf("%q: %s, not %s", words, joined, want)
	}
}

// TestCompletionInBash completes a word in bash itself, through the script of leat completion bash.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/usr/share/bash-completion/bash_completion"); err != nil {
		t.Skip("bash-completion is not installed")
	}
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "leat")); err != nil {
		t.Fatal(err)
	}
	script := `. /usr/share/bash-completion/bash_completion
. <(leat completion bash)
compopt() { :; } # readline's, which does not run
complete_line() {
	COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9
	read -ra COMP_WORDS <<<"$1"
	[[ $1 == *" " ]] && COMP_WORDS+=("")
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
	__start_leat leat "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
	echo "${COMPREPLY[*]}"
}
complete_line "leat apply --overview-method a"
complete_line "leat apply -i nir=b.tif -o x=x.tif --use-overviews "
`
	c := exec.CommandContext(t.Context(), "bash", "--norc", "-c", script)
	c.Env, c.Dir = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH")), dir
	out, err := c.CombinedOutput()
	if err != nil || strings.Join(strings.Fields(string(out)), " ") != "average nir" {
		t.Errorf("%v\n%s", err, out)
	}
}
