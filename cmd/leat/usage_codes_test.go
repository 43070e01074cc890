package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// usageMistakes are command lines with mistakes, after variables that are set. Words are split at
// blanks outside of quotes.
var usageMistakes = []string{
	// leat itself
	"nosuch", "--nosuch", "-x", "help nosuch", "--profile", "completion nosuch", "completion bash more",
	// leat apply: unknown, missing, bad
	"apply", "apply --nosuch", "apply -i a=a.tif -e a", "apply -i a=a.tif -o x=x.tif", "apply -o x=x.tif",
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
	"cache get c.cache", "cache get c.cache x", "cache ls a b", "cache stat", "cache check", "cache preserve", "cache export c.cache",
	"cache import c.pfio", "cache import c.pfio x c.cache",
	// leat jobs
	"jobs nosuch", "jobs ls more", "jobs show", "jobs show a b", "jobs gc more", "jobs ls --nosuch",
}

func TestUsageMistakesExitWithTwo(t *testing.T) {
	t.Parallel()
	if len(usageMistakes) < 60 {
		t.Fatalf("%d command lines, expected at least 60", len(usageMistakes))
	}
	dir := t.TempDir()
	leat(t, exitDone, dir, "demo", "--size", "64", ".")
	for _, f := range []struct{ name, text string }{{"x.tif", "untouched"}, {"c.cache", "untouched"}, {"bad.conf", "nosuch = 1\n"}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	scene, err := os.ReadFile(filepath.Join(dir, "B04.tif"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.tif"), scene, 0o666); err != nil {
		t.Fatal(err)
	}
	before := hashFiles(t, dir)
	home := t.TempDir()
	for _, line := range usageMistakes {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		c, _ := process(t, dir)
		args := shellWords(line)
		env := append(os.Environ(), "HOME="+home, "LEAT_CACHE_DIR="+filepath.Join(home, "cache"))
		// Whoever asks the network is refused.
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
			env = append(env, name+"=http://127.0.0.1:1")
		}
		for len(args) > 0 && strings.HasPrefix(args[0], "LEAT_") {
			env, args = append(env, args[0]), args[1:]
		}
		var stdout, stderr bytes.Buffer
		c = exec.CommandContext(ctx, c.Path)
		c.Args, c.Dir, c.Env, c.Stdout, c.Stderr = append([]string{"leat"}, args...), dir, env, &stdout, &stderr
		_ = c.Run()
		if ctx.Err() != nil {
			t.Errorf("leat %s does not end", line)
		}
		cancel()
		if code := c.ProcessState.ExitCode(); code != exitUsage {
			t.Errorf("leat %s: exit code %d\n%s%s", line, code, &stdout, &stderr)
		}
		if !strings.HasPrefix(stderr.String(), "leat: ") || stdout.Len() > 0 {
			t.Errorf("leat %s: standard output %q, standard error %q", line, &stdout, &stderr)
		}
	}
	if after := hashFiles(t, dir); after != before {
		t.Errorf("files were touched: %v", names(t, dir))
	}
}

// shellWords splits a line at blanks outside of single quotes.
func shellWords(line string) []string {
	var words []string
	for _, w := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(line, -1) {
		words = append(words, strings.Trim(w, "'"))
	}
	return words
}
