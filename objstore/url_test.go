package objstore_test

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"leat/internal/storeurl"
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
		if storeurl.Is(s) != want {
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
		if got := storeurl.Redact(raw); got != want {
			t.Errorf("%s: %s, expected %s", raw, got, want)
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
		red := storeurl.Redact(raw)
		if storeurl.Is(raw) && !strings.ContainsAny(raw, "\n\r\t ") {
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
			if storeurl.Redact(red) != red {
				t.Fatalf("%q: %q, and again %q", raw, red, storeurl.Redact(red))
			}
		}
		bucket, name, err := objstore.Split(raw)
		if err != nil {
			return
		}
		if name == "" || !storeurl.Is(bucket) {
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

func TestIDsAreDistinct(t *testing.T) {
	b := open(t, "https://u:p@H.org:443", nil)
	seen := map[string]string{}
	for _, name := range []string{"get?key=a/b.tif", "get?key=a/c.tif", "get", "get?se=1", "get?se=2", "get?a=1;2",
		"get?a=1&2", "get?a=1&a=2", "get?a=2&a=1", "get/", "get%2F", "get?page_token=1", "get?page_token=2",
		"get?sign=1", "get?sign=2", "get?x-oss-process=1", "get?q-signature=s&v=1", "get?q-ak=1",
		"get?sig=AAA", "get?sig=BBB", "get?signature=AAA", "get?signature=BBB", "get?sv=1&sig=AAA", "get?sv=1&sig=BBB",
		"get?sig=AAA&se=3", "get?Expires=1&Signature=A", "get?Expires=1&Signature=B",
		"get?Key-Pair-Id=A", "get?Key-Pair-Id=B", "get?Key-Pair-Id=A&Signature=B", "get?AWSAccessKeyId=A&Signature=B",
		"get?X-Amz-Signature=A", "get?X-Amz-Signature=B", "get?X-Amz-Date=1&X-Amz-Signature=A",
		"get?x-goog-signature=A", "get?x-goog-signature=B", "get?x-oss-signature=A", "get?x-oss-signature=B",
		"get?OSSAccessKeyId=A&Signature=B", "get?hdnts=A", "get?hdnts=B", "get?x-ms-version=A", "get?x-ms-version=B",
		"get?security-token=A", "get?security-token=B", "get?" + s3v4 + "&v=1", "get?" + s3v4 + "&v=2",
		"get?" + s3v4 + "&token=1", "get?" + s3v4 + "&token=2"} {
		id := b.ID(name)
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s are both %s", name, other, id)
		}
		seen[id] = name
		if !strings.HasPrefix(id, "https://h.org/get") || strings.Contains(id, "a/b.tif") {
			t.Error(id)
		}
	}
	for _, signed := range []string{
		s3v4, s3v4 + "&X-Amz-Security-Token=t&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD",
		"AWSAccessKeyId=a&Expires=1&Signature=s", "AWSAccessKeyId=a&Expires=1&Signature=s&x-amz-security-token=t",
		"X-Goog-Algorithm=a&X-Goog-Credential=c&X-Goog-Date=1&X-Goog-Expires=2&X-Goog-SignedHeaders=host&X-Goog-Signature=s",
		"GoogleAccessId=a&Expires=1&Signature=s",
		"sv=1&se=3&sr=b&sp=r&sig=2", "sv=1&sr=c&si=policy&sig=2", "sv=1&ss=b&srt=sco&sp=rl&st=1&se=3&spr=https&sig=2",
		"sv=1&st=1&se=3&skoid=1&sktid=2&skt=3&ske=4&sks=b&skv=5&sr=c&sp=rl&sig=2",
		"Expires=1&Signature=s&Key-Pair-Id=k", "Policy=p&Signature=s&Key-Pair-Id=k",
		"OSSAccessKeyId=a&Expires=1&Signature=s&security-token=t",
		"x-oss-signature-version=OSS4-HMAC-SHA256&x-oss-credential=a&x-oss-date=1&x-oss-expires=2&x-oss-signature=s&x-oss-security-token=t",
		"q-sign-algorithm=sha1&q-ak=a&q-sign-time=1%3B2&q-key-time=1%3B2&q-header-list=host&q-url-param-list=&q-signature=s",
		"hdnts=exp=1~acl=/*~hmac=s",
	} {
		if a, b := b.ID("x?"+signed), b.ID("x"); a != b {
			t.Errorf("%s is %s, without the signature it is %s", signed, a, b)
		}
	}
	if a, b := b.ID("x?b=1&a=2"), b.ID("x?a=2&b=1"); a != b {
		t.Errorf("in another order %s is %s", a, b)
	}
}

// s3v4 is an S3 signature.
const s3v4 = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=c&X-Amz-Date=1&X-Amz-Expires=2&X-Amz-SignedHeaders=host&X-Amz-Signature=s"
