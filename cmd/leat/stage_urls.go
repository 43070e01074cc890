package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"leat/internal/storeurl"
	"leat/objstore"
)

// stageSchemes are the stores that there are.
var stageSchemes = []string{"s3", "gs", "azblob", "http", "https", "file", "mem"}

// checkURL says what is wrong with the URL of an object, or of a prefix.
func checkURL(text string, prefix bool) error {
	if !storeurl.Is(text) {
		return fmt.Errorf("%s is not a URL: write one such as s3://bucket/name, https://host/name or file:///directory/name",
			shown(text))
	}
	err := checkScheme(text)
	if err == nil && !prefix {
		_, _, err = objstore.Split(text)
	}
	return err
}

// checkScheme returns an error for a URL of no store that there is.
func checkScheme(text string) error {
	scheme, _, _ := strings.Cut(text, "://")
	if slices.ContainsFunc(stageSchemes, func(s string) bool { return strings.EqualFold(s, scheme) }) {
		return nil
	}
	return didYouMean(fmt.Errorf("%s: there is no store called %q; there are s3, gs, azblob, http, https and file",
		shown(text), scheme), scheme, stageSchemes)
}

// isPrefix reports whether a URL stands for all objects whose names begin so. A web server has
// pages of such names, and no lists.
func isPrefix(text string, recursive bool) bool {
	scheme, _, _ := strings.Cut(strings.ToLower(text), "://")
	return recursive || strings.HasSuffix(text, "/") && scheme != "http" && scheme != "https"
}

// readTargets are the URLs of arguments: of each that is one, and those in the lists that the
// others are.
func readTargets(args []string, in io.Reader, recursive bool) ([]string, error) {
	var all []string
	var usage []error
	for _, arg := range args {
		if strings.Contains(arg, "://") {
			if err := checkURL(arg, isPrefix(arg, recursive)); err != nil {
				usage = append(usage, usageError{err})
			}
			all = append(all, arg)
		}
	}
	if len(usage) > 0 {
		return nil, errors.Join(usage...)
	}
	stdin := 0
	for _, arg := range args {
		if strings.Contains(arg, "://") {
			continue
		}
		from, name := in, "standard input"
		if arg == "-" {
			if stdin++; stdin > 1 {
				return nil, usagef("standard input can be read once: give - once")
			}
		} else {
			f, err := os.Open(arg)
			if err != nil {
				return nil, fmt.Errorf("the list %s can't be read: %w", arg, cause(err))
			}
			defer f.Close()
			from, name = f, arg
		}
		list, err := readList(from, name, recursive)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// readList reads a URL a line. Empty lines, and those that begin with #, are passed over.
func readList(r io.Reader, name string, recursive bool) (list []string, err error) {
	const mostErrors = 10
	var wrong []error
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		n++
		line := lines.Bytes()
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		text := string(bytes.TrimSpace(line))
		if text == "" || text[0] == '#' {
			continue
		}
		if err := checkURL(text, isPrefix(text, recursive)); err == nil {
			list = append(list, text)
		} else if wrong = append(wrong, fmt.Errorf("%s, line %d: %w", name, n, err)); len(wrong) == mostErrors {
			wrong = append(wrong, fmt.Errorf("%s: the lines behind line %d were not looked at", name, n))
			break
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		wrong = append(wrong, fmt.Errorf("%s, line %d: it is longer than 1 MiB: is this a list of URLs?", name, n+1))
	} else if err != nil {
		wrong = append(wrong, fmt.Errorf("the list %s can't be read: %w", name, cause(err)))
	}
	return list, errors.Join(wrong...)
}

// wanted is an object to be staged.
type wanted struct {
	src  *objstore.Bucket
	name string
}

// each calls give with every object that the URLs name, those below prefixes as they are listed.
// It passes what can't be opened or listed to failed; its error is that of give.
func (s *staging) each(ctx context.Context, urls []string, recursive bool, give func(wanted) error,
	failed func(url string, err error)) error {
	for _, u := range urls {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !isPrefix(u, recursive) {
			bucketURL, name, err := objstore.Split(u)
			var b *objstore.Bucket
			if err == nil {
				b, err = s.bucket(ctx, bucketURL)
			}
			if err != nil {
				failed(u, err)
			} else if err := give(wanted{b, name}); err != nil {
				return err
			}
			continue
		}
		b, err := s.bucket(ctx, u)
		if err != nil {
			failed(u, err)
			continue
		}
		for info, err := range b.List(ctx, "") {
			if err != nil {
				failed(u, err)
				break
			}
			if info.Name == "" || strings.HasSuffix(info.Name, "/") { // directories, as some tools make them in buckets
				continue
			}
			if err := give(wanted{b, info.Name}); err != nil {
				return err
			}
		}
	}
	return nil
}
