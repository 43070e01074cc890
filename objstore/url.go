package objstore

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"
)

// IsURL reports whether s is a URL of a store rather than the path of a local file.
func IsURL(s string) bool {
	scheme, _, ok := strings.Cut(s, "://")
	if !ok || scheme == "" {
		return false
	}
	for i, c := range scheme {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') &&
			(i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return true
}

// Split splits the URL of an object, or the path of a file, into the URL of the bucket, for Open,
// and the object's name in it. Names in s3, gs, azblob and mem are used as written, without
// unescaping; those of http(s) and file URLs follow the URL syntax.
func Split(objectURL string) (bucketURL, name string, err error) {
	if !IsURL(objectURL) {
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
			return "", "", fmt.Errorf("%s does not name a file", Redact(objectURL))
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
			return "", "", fmt.Errorf("%s names no object, expected a path", Redact(objectURL))
		}
		return scheme + "://" + host, name, nil
	}
	host, name, _ := strings.Cut(rest, "/")
	if host == "" || name == "" {
		return "", "", fmt.Errorf("%s names no object, expected %s://BUCKET/NAME", Redact(objectURL), scheme)
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
			Redact(fileURL), u.Host)
	case strings.ContainsAny(fileURL, "?#"):
		return "", fmt.Errorf("%s has ? or #, expected %%3F or %%23 in the URL of a file",
			Redact(fileURL))
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
		text := RedactText(err.Error())
		if strings.ContainsAny(raw, "?@") { // the error quotes a part that may be secret
			text = "its escapes, host or port are invalid"
		}
		return nil, fmt.Errorf("%s is not a URL: %s", printable(Redact(raw)), text)
	}
	return u, nil
}

// hashed returns a short hash that stands for a secret text.
func hashed(s string) string { return fmt.Sprintf("~%.8x", sha256.Sum256([]byte(s))) }
