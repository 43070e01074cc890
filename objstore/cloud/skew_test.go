//go:build !nocloud

package cloud

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"leat/objstore"
)

// skewed returns a bucket on an S3 server whose clock is wrong: it refuses what was signed at
// another time, without an error code in the response to a HEAD.
func skewed(t *testing.T, ahead time.Duration, deaf bool) *objstore.Bucket {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now().Add(ahead)
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if off := now.Sub(signed).Abs(); deaf || err != nil || off > 15*time.Minute {
			w.WriteHeader(http.StatusForbidden)
			if r.Method != http.MethodHead {
				fmt.Fprint(w, "<Error><Code>RequestTimeTooSkewed</Code><Message>no</Message></Error>")
			}
			return
		}
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Last-Modified", now.UTC().Format(http.TimeFormat))
		_, _ = io.WriteString(w, "hello")
	}))
	t.Cleanup(srv.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "me")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "geheim")
	return open(t, "s3://box", &objstore.Options{Endpoint: srv.URL})
}

func TestWrongClockIsCorrected(t *testing.T) {
	for _, ahead := range []time.Duration{-3 * time.Hour, 3 * time.Hour} {
		if _, err := skewed(t, ahead, false).Stat(t.Context(), "x"); err != nil {
			t.Errorf("%v ahead, looking up: %v", ahead, err)
		}
		_, body, err := skewed(t, ahead, false).Read(t.Context(), "x", 0, -1, nil)
		if err != nil {
			t.Errorf("%v ahead, reading: %v", ahead, err)
			continue
		}
		body.Close()
	}
}

func TestRefusalNamesClockDifference(t *testing.T) {
	_, err := skewed(t, 3*time.Hour, true).Stat(t.Context(), "x")
	if e := new(objstore.Error); !errors.As(err, &e) || e.Status != 403 || !strings.Contains(err.Error(), "3h0m0s behind") {
		t.Error(err)
	}
	_, err = skewed(t, -3*time.Hour, true).Stat(t.Context(), "x")
	if err == nil || !strings.Contains(err.Error(), "3h0m0s ahead") {
		t.Error(err)
	}
	_, err = skewed(t, 10*time.Second, true).Stat(t.Context(), "x")
	if err == nil || strings.Contains(err.Error(), "clock") {
		t.Error(err)
	}
}
