package objstore_test

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"leat/objstore"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct{ url, bucket, name string }{
		{"s3://b/a/c.tif", "s3://b", "a/c.tif"},
		{"S3://b/a b+c%20?d#e", "s3://b", "a b+c%20?d#e"},
		{"gs://b//x", "gs://b", "/x"},
		{"https://h:8443/p/q.tif?sig=1&x=2#part", "https://h:8443", "p/q.tif?sig=1&x=2"},
		{"http://u:p@h/p", "http://u:p@h", "p"},
		{"file:///d/f%20g.tif", "file:///d", "f g.tif"},
		{"/d/f g%20.tif", "file:///d", "f g%20.tif"},
	} {
		bucket, name, err := objstore.Split(c.url)
		if bucket != c.bucket || name != c.name || err != nil {
			t.Errorf("%s: %q %q %v", c.url, bucket, name, err)
		}
	}
	if bucket, name, err := objstore.Split("rel/a.tif"); err != nil || name != "a.tif" || !strings.HasSuffix(bucket,
		"/rel") {
		t.Error(bucket, name, err)
	}
	for _, bad := range []string{"s3://b", "s3://", "s3:///x", "https://h", "https://h/", "file:///", "file://host/x",
		"", "/d/", "http://%zz/x"} {
		if b, n, err := objstore.Split(bad); err == nil {
			t.Errorf("%q is %q and %q", bad, b, n)
		}
	}
}

func TestIsURL(t *testing.T) {
	for s, want := range map[string]bool{"s3://b/x": true, "HTTP://h": true, "a+b.c-1://x": true, `C:\x`: false,
		"a:b": false, "/x://y": false, "": false, "://x": false, "1a://x": false, "dir/s3://x": false} {
		if objstore.IsURL(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}

func TestRedact(t *testing.T) {
	for raw, want := range map[string]string{
		"https://u:p@H.org:443/a?X-Amz-Signature=1&b=2&X-Amz-Date=3#f": "https://h.org/a?b=2",
		"https://a.blob.core.windows.net/c/x?sv=1&sig=2&se=3":          "https://a.blob.core.windows.net/c/x",
		"https://h/x?b=2&a=1":                    "https://h/x?a=1&b=2",
		"https://h/x?ACCESS_TOKEN=1;api%5Fkey=2": "https://h/x",
		"s3://key:secret@b/x":                    "s3://b/x",
		"/plain/path?sig=1":                      "/plain/path?sig=1",
		"http://h:80":                            "http://h",
	} {
		if got := objstore.Redact(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

func FuzzRedactSecrets(f *testing.F) {
	for _, s := range []string{"https://u:SECRET@h/p?sig=SECRET", "s3://SECRET:SECRET@b/x?X-Amz-Signature=SECRET",
		"http://h?%73ig=SECRET&a=b", "file:///x", "http://a@SECRET@h/",
		"https://h/?x-goog-signature=SECRET;sig=SECRET"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		red := objstore.Redact(raw)
		if objstore.IsURL(raw) && !strings.ContainsAny(raw, "\n\r\t ") {
			// Other parsers must find no user and no signature in the result.
			if u, err := url.Parse(red); err == nil {
				if u.User != nil {
					t.Fatalf("%q keeps a user: %q", raw, red)
				}
				for k := range u.Query() {
					if l := strings.ToLower(strings.TrimSpace(k)); l == "sig" || strings.HasPrefix(l,
						"x-amz-") || strings.Contains(l, "token") {
						t.Fatalf("%q keeps %q: %q", raw, k, red)
					}
				}
			}
			if objstore.Redact(red) != red {
				t.Fatalf("%q: %q, and again %q", raw, red, objstore.Redact(red))
			}
		}
		bucket, name, err := objstore.Split(raw)
		if err != nil {
			return
		}
		if name == "" || !objstore.IsURL(bucket) {
			t.Fatalf("%q is %q and %q", raw, bucket, name)
		}
		if strings.HasPrefix(bucket, "file:") {
			u, err := url.Parse(bucket)
			if err != nil || !filepath.IsAbs(u.Path) {
				t.Fatalf("%q: %q %v", raw, bucket, err)
			}
			return
		}
		b2, n2, err := objstore.Split(bucket + "/" + name)
		if err != nil || b2 != bucket || n2 != name {
			t.Fatalf("%q is %q and %q, and then %q and %q, %v", raw, bucket, name, b2, n2, err)
		}
	})
}
