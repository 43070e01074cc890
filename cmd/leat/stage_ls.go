package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"leat/internal/terminal"
	"leat/internal/units"
	"leat/stage"
)

func stageListCommand() *cobra.Command {
	f := &stageFlags{}
	c := newStageCommand("ls", "List what is staged",
		`Ls lists the objects in the directory, in no order: their size, the space that they take, how long ago each was last
used, and last compared with its source, and their URLs without secrets. "#file" behind a URL means a copy that lies
in a file of its own, for a program that asked for one.`,
		`  leat stage ls
  leat stage ls --json | jq -r 'select(.bytes > 1e9) | .url'`,
		nil,
		func(cmd *cobra.Command, _ []string) error { return listStage(cmd, f) })
	f.addDir(c)
	f.addJSON(c, "one JSON object a line: url, bytes, disk_bytes, packed, etag, modified, used, checked")
	return c
}

// look opens a pool to look at what is there. nil: nothing was ever staged in dir.
func (f *stageFlags) look(ctx context.Context) (p *stage.Pool, dir string, err error) {
	dir, there, err := f.existing()
	if err != nil || !there {
		return nil, dir, err
	}
	p, err = stage.Open(ctx, dir, nil)
	return p, dir, err
}

func listStage(cmd *cobra.Command, f *stageFlags) (err error) {
	p, dir, err := f.look(cmd.Context())
	if err != nil {
		return err
	}
	if p == nil {
		if !f.json {
			fmt.Fprintln(cmd.ErrOrStderr(), "leat: nothing is staged in", terminal.Name(dir))
		}
		return nil
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	return listObjects(cmd.Context(), cmd.OutOrStdout(), p, time.Now(), f.json)
}

// listObjects streams: there may be millions.
func listObjects(ctx context.Context, w io.Writer, p *stage.Pool, now time.Time, asJSON bool) error {
	out := bufio.NewWriterSize(w, 64<<10)
	if !asJSON {
		fmt.Fprintf(out, "%10s  %10s  %9s  %9s  %s\n", "SIZE", "ON DISK", "USED", "CHECKED", "URL")
	}
	for o, err := range p.Objects() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return errors.Join(err, stdoutError(out.Flush()))
		}
		if asJSON {
			err = writeJSON(out, newObjectDoc(o))
		} else {
			_, err = fmt.Fprintf(out, "%10s  %10s  %9s  %9s  %s\n", units.FormatSize(o.Size), units.FormatSize(o.DiskBytes),
				ageText(now.Sub(o.Used)), ageText(now.Sub(o.Checked)), terminal.Name(o.Source))
		}
		if err != nil {
			return stdoutError(err)
		}
	}
	return stdoutError(out.Flush())
}

// objectDoc is a staged object in --json.
type objectDoc struct {
	URL       string     `json:"url"`        // of its source, without secrets
	Bytes     int64      `json:"bytes"`      // of the object
	DiskBytes int64      `json:"disk_bytes"` // that it takes
	Packed    bool       `json:"packed"`     // stored in a file with other objects
	ETag      string     `json:"etag"`       // of its source; empty: none
	Modified  *time.Time `json:"modified"`   // at its source; null: not known
	Used      time.Time  `json:"used"`       // last by any process
	Checked   time.Time  `json:"checked"`    // when its source last had this version
}

func newObjectDoc(o stage.Object) objectDoc {
	d := objectDoc{o.Source, o.Size, o.DiskBytes, o.Packed, o.ETag, nil, o.Used.UTC(), o.Checked.UTC()}
	if !o.Modified.IsZero() {
		m := o.Modified.UTC()
		d.Modified = &m
	}
	return d
}

// ageText is how long ago something was.
func ageText(d time.Duration) string {
	switch {
	case d < time.Second:
		return "now"
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d d", int64(d.Hours()/24))
	}
	return roughly(d)
}
