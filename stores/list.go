package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"leat/internal/filelist"
	"leat/internal/regular"
	"leat/internal/storeurl"
	"leat/internal/units"
	"leat/objstore"
)

// maxListed is the number of objects that Glob looks at: a thousand requests of a thousand names,
// some minutes.
const maxListed = 1_000_000

// Glob returns the URLs of the objects whose URL matches a pattern, in natural order; the syntax is
// that of path.Match. The pattern must not include the bucket. Glob looks at the objects whose
// names begin with the pattern's part before the first special character.
func (s *Stores) Glob(ctx context.Context, pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%s: the pattern has a [ without its ]", storeurl.Redact(pattern))
	}
	b, name, err := s.bucket(ctx, pattern)
	if err != nil {
		return nil, err
	}
	bucket := strings.TrimSuffix(pattern, name)
	if filelist.IsPattern(bucket) {
		return nil, fmt.Errorf("%s: the pattern begins in the bucket's name, expected it after the bucket", storeurl.Redact(pattern))
	}
	var found []string
	listed := 0
	for o, err := range b.List(ctx, filelist.Prefix(name)) {
		if err != nil {
			return nil, err
		}
		if listed++; listed > maxListed {
			return nil, fmt.Errorf("%s: more than %d objects begin with %q, expected a longer name before the pattern's first special character",
				storeurl.Redact(pattern), maxListed, filelist.Prefix(name))
		}
		if ok, _ := path.Match(name, o.Name); !ok || strings.HasSuffix(o.Name, "/") { // a directory's marker
			continue
		}
		if len(found) == filelist.MaxFiles {
			return nil, fmt.Errorf("%s: more than %d objects match the pattern", storeurl.Redact(pattern), filelist.MaxFiles)
		}
		found = append(found, bucket+o.Name)
	}
	filelist.Sort(found)
	return found, nil
}

// Fetch implements apply.Fetcher.
func (s *Stores) Fetch(ctx context.Context, url string, w io.Writer) (objstore.Info, error) {
	b, name, err := s.bucket(ctx, url)
	if err != nil {
		return objstore.Info{}, err
	}
	info, body, err := s.o.Store.Retry.Read(ctx, b, name, 0, -1, nil)
	if err != nil {
		return info, err
	}
	_, err = io.Copy(w, body)
	return info, errors.Join(err, body.Close())
}

// ReadFile returns the bytes of a small file, given by its path or URL. It is an error if there are
// more than maxBytes.
func (s *Stores) ReadFile(ctx context.Context, url string, maxBytes int64) ([]byte, error) {
	local, err := LocalPath(url)
	if err != nil {
		return nil, err
	}
	label := storeurl.Redact(url)
	var body io.ReadCloser
	if local != "" {
		f, _, err := regular.Open(local)
		if err != nil {
			var cause interface{ Unwrap() error }
			if errors.As(err, &cause) {
				err = cause.Unwrap()
			}
			return nil, fmt.Errorf("%s: %w", label, err)
		}
		body = f
	} else {
		b, name, err := s.bucket(ctx, url)
		if err != nil {
			return nil, err
		}
		if _, body, err = s.o.Store.Retry.Read(ctx, b, name, 0, -1, nil); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(body, maxBytes+1))
	err = errors.Join(err, body.Close())
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", label, err)
	case int64(len(text)) > maxBytes:
		return nil, fmt.Errorf("%s: the file has more than %s", label, units.FormatSize(maxBytes))
	}
	return text, nil
}
