package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestManPagesNameAllOptions(t *testing.T) {
	t.Parallel()
	pages := 0
	for _, c := range manCommands(rootCommand()) {
		pages++
		page := manPage(c)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if named := strings.Contains(page, `\fB`+roff("--"+f.Name)+`\fR`); named == f.Hidden {
				t.Errorf("%s: --%s: hidden %t, on the page %t", manName(c), f.Name, f.Hidden, named)
			}
		})
		if !strings.Contains(page, ".SH NAME\n"+roff(manName(c))+` \- `) {
			t.Errorf("%s: no name", manName(c))
		}
	}
	if pages < 20 {
		t.Errorf("%d pages, expected at least 20", pages)
	}
}

func TestManPagesPassLint(t *testing.T) {
	t.Parallel()
	lint, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("mandoc is not installed")
	}
	dir := t.TempDir()
	for _, c := range manCommands(rootCommand()) {
		name := filepath.Join(dir, manName(c)+".1")
		if err := os.WriteFile(name, []byte(manPage(c)), 0o666); err != nil {
			t.Fatal(err)
		}
		// The date is left out: pages of the same commit are the same.
		out, _ := exec.Command(lint, "-T", "lint", "-W", "warning", name).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if !strings.Contains(line, "missing date") {
				t.Error(strings.TrimSpace(line))
			}
		}
		if out, err := exec.Command(lint, "-T", "utf8", name).CombinedOutput(); err != nil || len(out) < 100 {
			t.Errorf("%s: %v, %d bytes", name, err, len(out))
		}
	}
}

func TestManEscapes(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	manText(&b, "first\n.second 'x'\n  --code \\n\n\nlast")
	want := "first\n\\&.second \\(aqx\\(aq\n.nf\n  \\-\\-code \\en\n.fi\n.PP\nlast\n"
	if b.String() != want {
		t.Errorf("%q, expected %q", b.String(), want)
	}
}
