package worker

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leat/internal/worker/protocol"
)

func someEndpoint() Endpoint {
	return Endpoint{
		Addresses: []string{"10.0.0.1:4711", "[fd00::1]:4711", "node1:4711"},
		Pin:       protocol.PinPrefix + "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
		Token:     "a-secret-of-43-characters-or-at-least-sixteen",
	}
}

func textOf(t testing.TB, i Endpoint) string {
	t.Helper()
	b, err := i.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEndpointTextRoundTrip(t *testing.T) {
	i := someEndpoint()
	text := textOf(t, i)
	if strings.Contains(text, "\n") {
		t.Errorf("more than a line: %q", text)
	}
	var got Endpoint
	if err := got.UnmarshalText([]byte(" " + text + "\n")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(i, got); d != "" {
		t.Error(d)
	}
}

func TestEndpointHidesSecrets(t *testing.T) {
	i := someEndpoint()
	e := struct{ Endpoint Endpoint }{i}
	o := StartOptions{Endpoint: i}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{i, &i, e, &e, o, []Endpoint{i}, struct{ I any }{i}} {
			if s := fmt.Sprintf(verb, v); strings.Contains(s, i.Token) || strings.Contains(s,
				i.Pin) || strings.Contains(s, fmt.Sprintf("%x", i.Token)) {
				t.Errorf("%s of %T: %s", verb, v, s)
			}
		}
	}
	for _, v := range []any{i, &i, e, o} {
		var b strings.Builder
		slog.New(slog.NewTextHandler(&b, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&b, nil)).Info("m", "v", v)
		if strings.Contains(b.String(), i.Token) {
			t.Errorf("slog of %T: %s", v, b.String())
		}
	}
	if b, err := json.Marshal(o.Endpoint); err == nil {
		t.Errorf("an endpoint was written into JSON: %s", b)
	}
}

func TestInvalidEndpointsAreNotShown(t *testing.T) {
	good := textOf(t, someEndpoint())
	edit := func(f func(*Endpoint)) string {
		i := someEndpoint()
		f(&i)
		return textOf(t, i)
	}
	for name, text := range map[string]string{
		"nothing":           "",
		"no JSON":           "a-secret-of-43",
		"two":               good + good,
		"other fields":      strings.Replace(good, `"pin"`, `"pins"`, 1),
		"no address":        edit(func(i *Endpoint) { i.Addresses = nil }),
		"many addresses":    edit(func(i *Endpoint) { i.Addresses = make([]string, 65) }),
		"no port":           edit(func(i *Endpoint) { i.Addresses = []string{"node1"} }),
		"port 0":            edit(func(i *Endpoint) { i.Addresses = []string{"node1:0"} }),
		"port by name":      edit(func(i *Endpoint) { i.Addresses = []string{"node1:http"} }),
		"no host":           edit(func(i *Endpoint) { i.Addresses = []string{":80"} }),
		"control":           edit(func(i *Endpoint) { i.Addresses = []string{"a\x1b:80"} }),
		"another hash":      edit(func(i *Endpoint) { i.Pin = "sha1//AAAA" }),
		"a short pin":       edit(func(i *Endpoint) { i.Pin = protocol.PinPrefix + "AAAA" }),
		"a short token":     edit(func(i *Endpoint) { i.Token = "a-secret" }),
		"a token in lines":  edit(func(i *Endpoint) { i.Token += "\r\nX: a-secret" }),
		"a long token":      edit(func(i *Endpoint) { i.Token = strings.Repeat("a-secret", 100) }),
		"more than its due": strings.Repeat(" ", protocol.MaxEndpoint) + good,
	} {
		got := Endpoint{Token: "as before"}
		err := got.UnmarshalText([]byte(text))
		if err == nil || strings.Contains(err.Error(), "a-secret") {
			t.Errorf("%s: %v", name, err)
		}
		if got.Token != "as before" {
			t.Errorf("%s: it was changed", name)
		}
	}
}

func FuzzEndpoint(f *testing.F) {
	f.Add(textOf(f, someEndpoint()))
	f.Add(`{"addresses":["a:1"],"pin":"sha256//","token":""}`)
	f.Add("fds:3,4,5")
	f.Fuzz(func(t *testing.T, s string) {
		var i Endpoint
		if err := i.UnmarshalText([]byte(s)); err != nil {
			if len(i.Addresses) > 0 || i.Pin != "" || i.Token != "" {
				t.Fatal("changed by a text that was refused")
			}
			return
		}
		b, err := i.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var j Endpoint
		if err := j.UnmarshalText(b); err != nil || !reflect.DeepEqual(i, j) {
			t.Fatalf("%s: %v", b, err)
		}
		if strings.Contains(i.public(), i.Token) && !strings.Contains(strings.Join(i.Addresses, ","), i.Token) {
			t.Fatal("the token is shown")
		}
		if _, err := protocol.ParsePin(i.Pin); err != nil {
			t.Fatal(err)
		}
	})
}
