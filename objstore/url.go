package objstore

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"
)

// IsURL tells whether a text is a URL of a store, and no name of a local file.
func IsURL(s string) bool {
	scheme, _, ok := strings.Cut(s, "://")
	if !ok || scheme == "" {
		return false
	}
	for i, c := range scheme {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return true
}

// Split parts the URL of an object, or the name of a file, into what Open takes and the object's name there. Names in s3, gs, azblob and mem are taken as they
// are written, nothing in them is escaped; those of http(s) and file URLs are as URLs are.
func Split(objectURL string) (bucketURL, name string, err error) {
	if !IsURL(objectURL) {
		if objectURL == "" || strings.HasSuffix(objectURL, "/") {
			return "", "", fmt.Errorf("objstore: %q names no file", objectURL)
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
			return "", "", fmt.Errorf("objstore: %s names no file", Redact(objectURL))
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
			return "", "", fmt.Errorf("objstore: %s names no object: a path is missing", Redact(objectURL))
		}
		return scheme + "://" + host, name, nil
	}
	host, name, _ := strings.Cut(rest, "/")
	if host == "" || name == "" {
		return "", "", fmt.Errorf("objstore: %s names no object: write %s://BUCKET/NAME", Redact(objectURL), scheme)
	}
	return scheme + "://" + host, name, nil
}

func fileURL(dir string) string { return (&url.URL{Scheme: "file", Path: dir}).String() }

// filePath is the file or folder that a file URL names.
func filePath(fileURL string) (string, error) {
	u, err := parse(fileURL)
	switch {
	case err != nil:
		return "", err
	case u.Host != "" && u.Host != "localhost":
		return "", fmt.Errorf("objstore: %s names the host %q: a file has three slashes, as in file:///data/a.tif", Redact(fileURL), u.Host)
	case strings.ContainsAny(fileURL, "?#"):
		return "", fmt.Errorf("objstore: %s: the signs ? and # in a file's name are %%3F and %%23 in a URL", Redact(fileURL))
	}
	return u.Path, nil
}

// parse is url.Parse with an error that says no secrets.
func parse(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		if e, ok := err.(*url.Error); ok {
			err = e.Err
		}
		text := RedactText(err.Error())
		if strings.ContainsAny(raw, "?@") { // it quotes a piece that may be secret
			text = "check its escapes, host and port"
		}
		return nil, fmt.Errorf("objstore: %s is not a URL: %s", printable(Redact(raw)), text)
	}
	return u, nil
}

// hashed is the short name of a text that is not to be told.
func hashed(s string) string { return fmt.Sprintf("~%.8x", sha256.Sum256([]byte(s))) }
