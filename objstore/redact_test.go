package objstore_test

import (
	"strings"
	"testing"

	"leat/objstore"
)

func TestRedactKeepsWhatIsNoSecret(t *testing.T) {
	for raw, want := range map[string]string{
		"https://h/x?se=3&sp=r":                      "https://h/x?se=3&sp=r", // of no shared access signature
		"https://h/x?expires=3&policy=a":             "https://h/x?expires=3&policy=a",
		"https://h/x?Expires=3&Policy=a&Signature=s": "https://h/x",
		"https://h/x?Expires=3&Key-Pair-Id=a&b=1":    "https://h/x?b=1",
		"https://h/x?b=2&a=2&a=1":                    "https://h/x?a=2&a=1&b=2", // the order of equal names may mean something
		"https://h/x?a=1;2&b":                        "https://h/x?a=1;2&b",
		"https://user:p/ss@h/x":                      "https://h/x",
		"https://user:p?ss@h/x?sig=1":                "https://h/x",
		"https://user:p#s@s/s@h/x":                   "https://h/x",
		"https://[::1]:8080/x@y":                     "https://[::1]:8080/x@y",
		"s3://bucket/user@host/x":                    "s3://bucket/user@host/x",
		"https://h:80:80/":                           "https://h:80:80/",
		"http://h:80:80/":                            "http://h/",
		"https://h/x?OSSAccessKeyId=a&Expires=1&Signature=s&security-token=t&b=1":                            "https://h/x?b=1",
		"https://h/x?x-oss-signature=s&x-oss-credential=a&x-oss-date=1&x-oss-expires=2&x-oss-process=resize": "https://h/x?x-oss-process=resize",
		"https://h/x?x-oss-date=1": "https://h/x?x-oss-date=1",
		"https://h/x?q-sign-algorithm=sha1&q-ak=a&q-sign-time=1%3B2&q-signature=s&v=1": "https://h/x?v=1",
		"https://h/x?q-ak=a":                          "https://h/x?q-ak=a",
		"https://h/x?hdnts=exp=1~hmac=s&v=1":          "https://h/x?v=1",
		"https://h/x?sign=s&v=1":                      "https://h/x?v=1",
		"https://h/x?response-content-type=a&KEY=abc": "https://h/x?response-content-type=a",
	} {
		if got := objstore.Redact(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

func TestRedactTextFindsSecretsInWhatLibrariesSay(t *testing.T) {
	for text, want := range map[string]string{
		`Get "https://u:p@h/x?sig=1&a=2": EOF`:                        `Get "https://h/x?a=2": EOF`,
		`proxyconnect tcp: invalid proxy address "http://me:pw@host"`: `proxyconnect tcp: invalid proxy address "http://host"`,
		"bad header X-Amz-Signature=abc, AWSAccessKeyId=k; x=1":       "bad header X-Amz-Signature=... AWSAccessKeyId=...; x=1",
		"nothing to hide: 1 + 1 = 2":                                  "nothing to hide: 1 + 1 = 2",
	} {
		if got := objstore.RedactText(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestRedactURLsFindsWhereTheyEnd(t *testing.T) {
	for text, want := range map[string]string{
		`a "https://h/x?sig=1" b`:                               `a "https://h/x" b`,
		`a 'https://h/x?sig=1', b`:                              `a 'https://h/x', b`,
		"a `https://h/x?sig=1`.":                                "a `https://h/x`.",
		`<https://h/x?sig=1>: no (https://h/y?sig=2)`:           `<https://h/x>: no (https://h/y)`,
		`https://h/it's?sig=1`:                                  `https://h/it's`,
		`https://h/x?a='b'&sig=G`:                               `https://h/x?a='b'`,
		`https://h/x?sig=a"G c`:                                 `https://h/x c`,
		`'https://h/x?sig=a'G' c`:                               `'https://h/x' c`,
		`"https://h/x?sig=a\"G": EOF`:                           `"https://h/x": EOF`,
		`"https://h/x?sig=a<G>&b=1"`:                            `"https://h/x?b=1"`,
		`https://u:pa'G@h/x and https://u:pa"G@h/y`:             `https://h/x and https://h/y`,
		`"https://u:pa'G@h/x"`:                                  `"https://h/x"`,
		`["https://h/x?sig=1","s3://b/y?sig=2"]`:                `["https://h/x","s3://b/y"]`,
		`{"a":"https://h/x?sig=1","b":{"c":"https://h/y#sig"}}`: `{"a":"https://h/x","b":{"c":"https://h/y"}}`,
		`-i red=https://h/x?sig=1`:                              `-i red=https://h/x`,
		`see https://h/x?sig=1.`:                                `see https://h/x.`,
		`no URL: a://`:                                          `no URL: a://`,
	} {
		if got := objstore.RedactURLs(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestObjectsAreNotTakenForOneAnother(t *testing.T) {
	b := open(t, "https://u:p@H.org:443", nil)
	seen := map[string]string{}
	for _, name := range []string{"get?key=a/b.tif", "get?key=a/c.tif", "get", "get?se=1", "get?se=2", "get?a=1;2", "get?a=1&2", "get?a=1&a=2", "get?a=2&a=1", "get/", "get%2F", "get?page_token=1", "get?page_token=2", "get?sign=1", "get?sign=2", "get?x-oss-process=1", "get?q-signature=s&v=1", "get?q-ak=1"} {
		id := b.ID(name)
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s are both %s", name, other, id)
		}
		seen[id] = name
		if !strings.HasPrefix(id, "https://h.org/get") || strings.Contains(id, "a/b.tif") {
			t.Error(id)
		}
	}
	for _, same := range [][2]string{{"x?X-Amz-Date=1&X-Amz-Signature=2", "x?X-Amz-Date=3&X-Amz-Signature=4"}, {"x?sv=1&sig=2&se=3", "x"}, {"x?OSSAccessKeyId=a&Expires=1&Signature=s&security-token=t", "x"}, {"x?q-ak=a&q-sign-time=1%3B2&q-signature=s", "x"},
		{"x?x-oss-signature=s&x-oss-date=1&x-oss-security-token=t", "x"}, {"x?b=1&a=2", "x?a=2&b=1"}} {
		if a, b := b.ID(same[0]), b.ID(same[1]); a != b {
			t.Errorf("%s is %s, %s is %s", same[0], a, same[1], b)
		}
	}
}

func FuzzNoKnownSecretIsPrinted(f *testing.F) {
	f.Add("user", "h/x", "a=1", "sig")
	f.Add("us/er", "h:80/x@y", "b;c", "X-Amz-Signature")
	f.Add("u?ser#", "h/x#y?z", "", "access_token")
	f.Fuzz(func(t *testing.T, user, rest, query, param string) {
		const word = "G3HE1M7S"
		if strings.Contains(user+rest+query, "=") || strings.ContainsAny(param, "=&;?#/ %") || strings.Contains(rest, "@") {
			t.Skip()
		}
		host, _, _ := strings.Cut(rest, "/")
		if strings.ContainsAny(host, "?#:") || strings.ContainsAny(rest, "#") || strings.ContainsAny(user, ":") {
			t.Skip()
		}
		raw := "https://" + user + ":" + word + "@" + rest
		if !strings.Contains(rest, "?") {
			raw += "?" + query + "&" + "sig=" + word + "&X-Amz-" + param + "=" + word
		}
		if strings.ContainsAny(user, "/?#") {
			t.Skip() // what comes before the first of these is the host, to all parsers
		}
		for _, s := range []string{objstore.Redact(raw), objstore.RedactText("x " + raw)} {
			if !strings.ContainsAny(raw, " \t\n\r\v\f\u0085\u00a0") && strings.Contains(s, word) {
				t.Fatalf("%q: %q", raw, s)
			}
		}
		b, err := objstore.Open(t.Context(), "https://"+user+":"+word+"@"+host, nil)
		if err != nil {
			if strings.Contains(err.Error(), word) {
				t.Fatal(err)
			}
			return
		}
		defer b.Close()
		if id := b.ID("x?sig=" + word); strings.Contains(id, word) {
			t.Fatal(id)
		}
	})
}
