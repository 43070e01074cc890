package objstore

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"sort"
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
		u, err := parse(objectURL)
		if err != nil {
			return "", "", err
		}
		if u.Host != "" && u.Host != "localhost" {
			return "", "", fmt.Errorf("objstore: %s names the host %q: a file has three slashes, as in file:///data/a.tif", Redact(objectURL), u.Host)
		}
		if u.Path == "" || strings.HasSuffix(u.Path, "/") {
			return "", "", fmt.Errorf("objstore: %s names no file", Redact(objectURL))
		}
		return fileURL(path.Dir(u.Path)), path.Base(u.Path), nil
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

// parse is url.Parse with an error that says no secrets.
func parse(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		if e, ok := err.(*url.Error); ok {
			err = e.Err
		}
		return nil, fmt.Errorf("objstore: %s is not a URL: %s", Redact(raw), redactText(err.Error(), raw))
	}
	return u, nil
}

// redactText hides an error's text that quotes a part of a URL which has secrets.
func redactText(text, raw string) string {
	if strings.ContainsAny(raw, "?@") {
		return "check its escapes, host and port"
	}
	return text
}

// Redact is a URL for printing and storing: without userinfo, signatures and other secrets, and without a fragment. Other texts stay as they are.
func Redact(raw string) string {
	if !IsURL(raw) {
		return raw
	}
	scheme, rest, _ := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	web := scheme == "http" || scheme == "https"
	query := ""
	if web || scheme == "file" {
		rest, _, _ = strings.Cut(rest, "#")
	}
	// Whatever follows a question mark is taken for a query, also where a name may have one: a signature was put there.
	rest, query, _ = strings.Cut(rest, "?")
	host, name, slash := strings.Cut(rest, "/")
	if i := strings.LastIndex(host, "@"); i >= 0 {
		host = host[i+1:]
	}
	if web {
		host = strings.ToLower(host)
		host = strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[scheme])
	}
	s := scheme + "://" + host
	if slash {
		s += "/" + name
	}
	if query = openQuery(query, web); query != "" {
		s += "?" + query
	}
	return s
}

// openQuery is what of a query may be told, in a fixed order where order means nothing.
func openQuery(query string, sorted bool) string {
	var open []string
	for _, p := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(p, "=")
		if n, err := url.QueryUnescape(name); err == nil {
			name = n
		}
		if !secret(name) {
			open = append(open, p)
		}
	}
	if sorted {
		sort.Strings(open)
	}
	return strings.Join(open, "&")
}

// secrets are parameters of signed URLs (S3's older form, CloudFront, Azure's shared access signatures) and names by which programs pass keys.
var secrets = map[string]bool{
	"signature": true, "awsaccesskeyid": true, "googleaccessid": true, "expires": true, "policy": true, "key-pair-id": true,
	"sig": true, "se": true, "sp": true, "sv": true, "sr": true, "st": true, "ss": true, "srt": true, "spr": true, "sip": true, "sdd": true,
	"ske": true, "skoid": true, "sks": true, "skt": true, "sktid": true, "skv": true, "saoid": true, "suoid": true, "scid": true,
	"token": true, "access_token": true, "id_token": true, "refresh_token": true, "auth": true, "authorization": true,
	"key": true, "apikey": true, "api_key": true, "api-key": true, "subscription-key": true, "client_secret": true, "secret": true, "password": true, "passwd": true, "pwd": true, "session": true, "jwt": true,
}

func secret(name string) bool {
	name = strings.ToLower(strings.TrimSpace(name))
	return secrets[name] || strings.HasPrefix(name, "x-amz-") || strings.HasPrefix(name, "x-goog-") || strings.HasPrefix(name, "x-ms-") ||
		strings.Contains(name, "token") || strings.Contains(name, "secret") || strings.Contains(name, "signature") || strings.Contains(name, "password")
}
