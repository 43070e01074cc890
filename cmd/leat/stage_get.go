package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"leat/internal/storeurl"
	"leat/internal/terminal"
	"leat/internal/units"
	"leat/objstore"
	"leat/stage"
)

func stageGetCommand() *cobra.Command {
	f := &stageFlags{}
	var output string
	c := newStageCommand("get URL...", "Stage objects and print where they are, or write them",
		`Get stages objects and prints the names of local files that hold them, in the order of the URLs. The files are the
stage's: read them, don't change them. They stay until their space is needed. With -o the bytes are written to FILE, to
files of the same names in the directory DIR, or one after the other to standard output (-); then it does not matter
whether there is space to stage them. An output appears under its name when it is whole.`,
		`  leat stage get s3://bucket/scene.tif
  leat stage get https://example.org/a.tif https://example.org/b.tif -o data/
  leat stage get s3://bucket/notes.txt -o - | less`,
		func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("stage get takes URLs of objects, such as: leat stage get s3://bucket/scene.tif")
			}
			return nil
		},
		func(cmd *cobra.Command, args []string) error { return getObjects(cmd, args, output, f) })
	c.Flags().StringVarP(&output, "output", "o", "", "`FILE|DIR|-`: write the bytes there")
	c.Flags().BoolVar(&f.force, "overwrite", false, "replace outputs that exist")
	f.addSource(c)
	f.addJSON(c, "one JSON object a line: url, path (null with -o -), bytes, staged (it is on the local disk)")
	return c
}

// gotDoc is an object in --json.
type gotDoc struct {
	URL    string  `json:"url"`    // without secrets
	Path   *string `json:"path"`   // null: standard output
	Bytes  int64   `json:"bytes"`  // of the object
	Staged bool    `json:"staged"` // it is on the local disk
}

// getting is a run of leat stage get.
type getting struct {
	s        *staging
	f        *stageFlags
	progress *stageProgress
	stdout   io.Writer
	toStdout bool     // the bytes
	outputs  []string // for each URL; "": the stage's own file
}

func getObjects(cmd *cobra.Command, urls []string, output string, f *stageFlags) (err error) {
	o, err := f.options()
	g := &getting{f: f, stdout: cmd.OutOrStdout(), toStdout: output == "-", outputs: make([]string, len(urls))}
	errs := []error{err}
	for _, u := range urls {
		err := checkURL(u, false)
		if err == nil && isPrefix(u, false) {
			err = fmt.Errorf("%s ends in a slash: leat stage prefetch stages all objects below it", shown(u))
		}
		if err != nil {
			errs = append(errs, usageError{err})
		}
	}
	if g.toStdout && f.json {
		errs = append(errs, usagef("--json and -o - both write to standard output: choose one"))
	}
	if f.force && (output == "" || g.toStdout) {
		errs = append(errs, usagef("--overwrite is for outputs that have names: give -o FILE or -o DIR"))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if output != "" && !g.toStdout {
		if g.outputs, err = outputNames(urls, output, f.force); err != nil {
			return err
		}
	}
	f.canRead = output != ""
	if g.s, err = f.open(cmd, o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.s.end()) }()
	g.progress = newStageProgress(g.s.people, "reading")
	g.progress.waiting = &g.s.waiting
	g.progress.known.Store(int64(len(urls)))
	ctx := cmd.Context()
	err = g.progress.run(func() error { return g.all(ctx, urls) })
	if ctx.Err() != nil {
		return errors.New("interrupted: " + units.Plural(g.progress.done.Load(), "object was done", "objects were done"))
	}
	return err
}

// ahead is how many objects are staged before those in front of them are done.
const ahead = 256

// all gets all objects in their order. Those that fail do not keep the others.
func (g *getting) all(ctx context.Context, urls []string) error {
	type queued struct {
		l   *stage.Ref
		w   wanted
		url string
		err error
	}
	queue := make([]queued, 0, ahead)
	next := 0
	var errs []error
	for i := range urls {
		for ; next < len(urls) && next < i+ahead; next++ {
			q := queued{url: urls[next]}
			bucketURL, name, err := objstore.Split(q.url)
			var w wanted
			if err == nil {
				w.name = name
				w.src, err = g.s.bucket(ctx, bucketURL)
			}
			if q.err = err; err == nil && g.s.pool == nil {
				q.url, q.w = w.src.ID(name), w
			} else if err == nil {
				q.url = w.src.ID(name)
				prefetch := g.s.pool.Prefetch
				if g.outputs[next] == "" && !g.toStdout { // its path is what is wanted
					prefetch = g.s.pool.PrefetchFile
				}
				q.l = prefetch(counted{w.src, &g.progress.bytes}, w.name)
			} else {
				q.url = storeurl.Redact(q.url)
			}
			queue = append(queue, q)
		}
		q := queue[0]
		queue[0] = queued{}
		queue = queue[1:]
		err := q.err
		if err == nil {
			err = g.one(ctx, q.l, q.w, q.url, g.outputs[i])
			if q.l != nil {
				q.l.Release()
			}
		}
		if ctx.Err() != nil {
			for _, q := range queue {
				if q.l != nil {
					q.l.Release()
				}
			}
			return ctx.Err()
		}
		var end outputError
		switch {
		case err == nil:
			g.progress.done.Add(1)
		case errors.As(err, &end):
			return err // there is no sense in going on
		default:
			g.progress.failed.Add(1)
			if !mentions(err.Error(), q.url) {
				err = fmt.Errorf("%s: %w", terminal.Name(q.url), err)
			}
			errs = append(errs, withSpaceHint(err))
		}
	}
	return errors.Join(errs...)
}

// one gets an object. Bytes that go to a file are read again from the beginning where the object
// was replaced meanwhile, or its connection broke and its version is not identified.
// Without a stage, l is nil and w is what is read.
func (g *getting) one(ctx context.Context, l *stage.Ref, w wanted, id, output string) error {
	for tries := 0; ; tries++ {
		var err error
		if l != nil {
			err = g.try(ctx, l, id, output)
		} else {
			err = g.direct(ctx, w, id, output)
		}
		again := errors.Is(err, objstore.ErrNotResumed) || errors.Is(err, objstore.ErrChanged)
		if g.toStdout || output == "" || tries == 2 || !again || ctx.Err() != nil {
			return err
		}
	}
}

func (g *getting) try(ctx context.Context, l *stage.Ref, id, output string) (err error) {
	r, err := l.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	d := gotDoc{URL: id, Bytes: r.Size(), Staged: r.Staged()}
	switch {
	case g.toStdout:
		_, err := copyObject(ctx, stdoutWriter{g.stdout}, r)
		return err
	case output != "":
		if err := writeObject(ctx, output, r, r.Size(), g.f.force); err != nil {
			return err
		}
	default:
		if !r.Staged() {
			return g.noSpace(r.Size())
		}
		if output, err = r.Path(); errors.Is(err, stage.ErrNoSpace) {
			return g.noSpace(r.Size())
		} else if err != nil {
			return err
		}
	}
	d.Path = &output
	return g.done(d)
}

// direct gets an object without a stage.
func (g *getting) direct(ctx context.Context, w wanted, id, output string) (err error) {
	info, body, err := g.s.stores.Retry.Read(ctx, counted{w.src, &g.progress.bytes}, w.name, 0, -1, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	if g.toStdout {
		_, err := copyObject(ctx, stdoutWriter{g.stdout}, body)
		return err
	}
	if err := writeObject(ctx, output, body, info.Size, g.f.force); err != nil {
		return err
	}
	st, err := os.Stat(output)
	if err != nil {
		return err
	}
	return g.done(gotDoc{URL: id, Path: &output, Bytes: st.Size()})
}

// noSpace returns the error for an object of that size that could not be staged.
func (g *getting) noSpace(size int64) error {
	var st unix.Statfs_t
	if unix.Statfs(g.s.pool.Dir(), &st) == nil && st.Files > 0 && st.Ffree == 0 {
		return hintedError{fmt.Errorf("no inode is left on the disk of %s to stage it", terminal.Name(g.s.pool.Dir())),
			"remove files there, or write it with -o"}
	}
	return hintedError{fmt.Errorf("no space to stage its %s", units.FormatSize(size)),
		"use a higher --max-bytes, free some of the disk, or write it with -o"}
}

// done reports an object and where it is.
func (g *getting) done(d gotDoc) (err error) {
	if output := *d.Path; g.f.json {
		err = writeJSON(g.stdout, d)
	} else {
		_, err = fmt.Fprintln(g.stdout, pathFor(g.stdout, output))
	}
	if err != nil {
		return outputError{stdoutError(err)}
	}
	return nil
}
