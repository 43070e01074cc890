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

// TestManPagesRefer checks that pages refer to pages that exist, and have no exit code of others.
func TestManPagesRefer(t *testing.T) {
	t.Parallel()
	pages := map[string]string{}
	for _, c := range manCommands(rootCommand()) {
		pages[manName(c)] = manPage(c)
	}
	for name, page := range pages {
		_, also, _ := strings.Cut(page, ".SH SEE ALSO\n")
		for line := range strings.Lines(also) {
			if fields := strings.Fields(line); pages[strings.ReplaceAll(fields[1], `\-`, "-")] == "" {
				t.Errorf("%s refers to %s", name, fields[1])
			}
		}
		if of := name == "leat" || name == "leat-stage-pin"; strings.Contains(page, "stage pin ran") != of {
			t.Errorf("%s: the code of a program that was run: %t, expected %t", name, !of, of)
		}
	}
	for _, topic := range []string{"grid", "outputs", "expressions", "workers", "environment"} {
		if !strings.Contains(pages["leat-apply"], `.BR leat\-`+topic+" (1)") {
			t.Errorf("leat-apply(1) does not refer to %s", topic)
		}
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
