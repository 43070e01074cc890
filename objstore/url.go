package objstore

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"leat/internal/storeurl"
)

// Split splits the URL of an object, or the path of a file, into the URL of the bucket, for Open,
// and the object's name in it. Names in s3, gs, azblob and mem are used as written, without
// unescaping; those of http(s) and file URLs follow the URL syntax.
func Split(objectURL string) (bucketURL, name string, err error) {
	if !storeurl.Is(objectURL) {
		if objectURL == "" || strings.HasSuffix(objectURL, "/") {
			return "", "", fmt.Errorf("%q does not name a file", objectURL)
		}
		file, err := filepath.Abs(objectURL)
		if err != nil {
			return "", "", err
		}
		return fileURL(filepath.Dir(file)), filepath.Base(file), nil
	}
	scheme, rest, _ := strings.Cut(objectURL, "://")
	scheme = strings.ToLower(scheme)
	switch scheme {
	case "file":
		p, err := filePath(objectURL)
		if err != nil {
			return "", "", err
		}
		if p == "" || strings.HasSuffix(p, "/") {
			return "", "", fmt.Errorf("%s does not name a file", storeurl.Redact(objectURL))
		}
		return fileURL(path.Dir(p)), path.Base(p), nil
	case "http", "https":
		rest, _, _ = strings.Cut(rest, "#")
		i := strings.IndexAny(rest, "/?")
		host, name := rest, ""
		if i >= 0 {
			host, name = rest[:i], strings.TrimPrefix(rest[i:], "/")
		}
		if _, err := parse(scheme + "://" + host); err != nil {
			return "", "", err
		}
		if host == "" || name == "" {
			return "", "", fmt.Errorf("%s names no object, expected a path", storeurl.Redact(objectURL))
		}
		return scheme + "://" + host, name, nil
	}
	host, name, _ := strings.Cut(rest, "/")
	if host == "" || name == "" {
		return "", "", fmt.Errorf("%s names no object, expected %s://BUCKET/NAME", storeurl.Redact(objectURL), scheme)
	}
	return scheme + "://" + host, name, nil
}

func fileURL(dir string) string { return (&url.URL{Scheme: "file", Path: dir}).String() }

// filePath returns the path of the file or directory that a file URL names.
func filePath(fileURL string) (string, error) {
	u, err := parse(fileURL)
	switch {
	case err != nil:
		return "", err
	case u.Host != "" && u.Host != "localhost":
		return "", fmt.Errorf("%s names the host %q, expected three slashes as in file:///data/a.tif",
			storeurl.Redact(fileURL), u.Host)
	case strings.ContainsAny(fileURL, "?#"):
		return "", fmt.Errorf("%s has ? or #, expected %%3F or %%23 in the URL of a file",
			storeurl.Redact(fileURL))
	}
	return u.Path, nil
}

// parse is url.Parse with errors that contain no secrets.
func parse(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		if e, ok := err.(*url.Error); ok {
			err = e.Err
		}
		text := storeurl.RedactText(err.Error())
		if strings.ContainsAny(raw, "?@") { // the error quotes a part that may be secret
			text = "its escapes, host or port are invalid"
		}
		return nil, fmt.Errorf("%s is not a URL: %s", storeurl.Printable(storeurl.Redact(raw)), text)
	}
	return u, nil
}
