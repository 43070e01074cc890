package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"leat/internal/units"
)

// listOrURLs checks that there is an argument.
func listOrURLs(name, example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			first, _, _ := strings.Cut(strings.TrimSpace(example), "\n")
			return usagef("stage %s takes a list of URLs, - for standard input, or URLs, such as: %s", name, first)
		}
		return nil
	}
}

func stagePrefetchCommand() *cobra.Command {
	f := &stageFlags{}
	example := `  leat stage prefetch scenes.txt --max-bytes 200G
  leat stage prefetch s3://bucket/train/
  aws s3 ls s3://bucket/train/ | awk '/\.tar$/ {print "s3://bucket/train/" $4}' | leat stage prefetch -`
	c := newStageCommand("prefetch LIST|URL|-...", "Stage all objects of a list or below a prefix",
		`Prefetch stages the objects of a list, one URL a line (a line that begins with # is skipped), of a list on standard
input (-), and URLs. A URL that ends in a slash, and with --recursive each, stands for all objects below that directory
(a web server can't list any). What is there and still has the version of its source is not copied again. All of it
is kept in use until prefetch ends: what then finds no space has failed, and so has what a process is copying that is
stopped and does not go on within 30 s; that process is named. The code is 1 when any failed; the others are
staged nevertheless.`,
		example, listOrURLs("prefetch", example),
		func(cmd *cobra.Command, args []string) error { return prefetch(cmd, args, f) })
	c.Aliases = []string{"warm"} // the earlier name
	c.Flags().BoolVar(&f.recursive, "recursive", false, "take every URL as that of a directory")
	f.addSource(c)
	f.addJSON(c, "one JSON object a line: of each object that failed, then the counts")
	return c
}

func prefetch(cmd *cobra.Command, args []string, f *stageFlags) (err error) {
	o, err := f.options()
	if err != nil {
		return err
	}
	urls, err := interruptible(cmd.Context(),
		func() ([]string, error) { return readTargets(args, cmd.InOrStdin(), f.recursive) })
	if err != nil {
		return err
	}
	s, err := f.open(cmd, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	fill := &filling{s: s, progress: newStageProgress(s.people, "staging")}
	fill.progress.waiting = &s.waiting
	if f.json {
		fill.data = cmd.OutOrStdout()
	}
	ctx := cmd.Context()
	err = fill.progress.run(func() error { return fill.fill(ctx, urls, f.recursive, mostHeld, f.workers) })
	d := fill.doc()
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %s are staged: run it again for the others",
			units.Count(fill.progress.done.Load(), "object"))
	}
	fill.release()
	if err != nil {
		return err
	}
	if f.json {
		if err := writeJSON(cmd.OutOrStdout(), d); err != nil {
			return stdoutError(err)
		}
	} else {
		fmt.Fprintln(s.people, d.text())
	}
	if d.Failed > 0 {
		return notStaged(d)
	}
	return nil
}

// notStaged returns the error of a command that has reported which objects failed.
func notStaged(d fillDoc) error {
	if d.Failed == 1 {
		return errors.New("one object was not staged")
	}
	return fmt.Errorf("%d objects were not staged", d.Failed)
}
