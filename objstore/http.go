package objstore

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"leat/internal/storeurl"
	"leat/objstore/internal/transport"
)

// web is a Source that reads from one host over http or https.
type web struct {
	scheme, host string
	user         *url.Userinfo
	client       http.Client
	own          bool // Close closes the client's idle connections
}

func openHTTP(u *url.URL, o *Options) (*web, error) {
	if u.Host == "" {
		return nil, fmt.Errorf("%s names no host", storeurl.Redact(u.String()))
	}
	// A URL writes the % of an IPv6 zone as %25.
	w := &web{scheme: u.Scheme, host: strings.ReplaceAll(u.Host, "%", "%25"), user: u.User}
	client := o.Client
	if client == nil {
		client, w.own = transport.NewClient(), true
	}
	w.client = *client
	if w.client.CheckRedirect == nil {
		w.client.CheckRedirect = w.follow
	}
	return w, nil
}

// follow decides whether to follow a redirect, and removes secrets from the request.
func (w *web) follow(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= 10:
		return errors.New("the server redirected more than 9 times")
	case w.user != nil && via[0].URL.Scheme == "https" && req.URL.Scheme != "https":
		return errors.New("the server redirects from https to http, which would send the password unencrypted")
	}
	req.Header.Del("Referer") // it may contain a signature
	if !sameServer(via[0].URL, req.URL) {
		req.Header.Del("Authorization") // net/http keeps it for other ports of a host and for its subdomains
	}
	return nil
}

// sameServer reports whether a redirect stays on the same server. A redirect from http to https
// stays there if both use the default port.
func sameServer(from, to *url.URL) bool {
	usual := func(u *url.URL) bool {
		p := u.Port()
		return p == "" || p == map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.EqualFold(from.Hostname(),
		to.Hostname()) && (usual(from) && usual(to) || from.Port() == to.Port() && from.Scheme == to.Scheme)
}

func (w *web) Close() error {
	if w.own {
		w.client.CloseIdleConnections()
	}
	return nil
}

func (w *web) ID(name string) string {
	return storeurl.Identity(w.scheme + "://" + w.host + "/" + name)
}

// show returns the object's URL for errors.
func (w *web) show(name string) string {
	return storeurl.Redact(w.scheme + "://" + w.host + "/" + name)
}

// do sends a request. If it succeeds, the caller closes the response's body.
func (w *web) do(ctx context.Context, op, method, name string, header map[string]string) (*http.Response, error) {
	u, err := parse(w.scheme + "://" + w.host + "/" + name)
	if err != nil {
		return nil, err
	}
	req := (&http.Request{Method: method, URL: u, Host: w.host, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1}).WithContext(ctx)
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "leat")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	if w.user != nil {
		pass, _ := w.user.Password()
		req.SetBasicAuth(w.user.Username(), pass)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		if w.own && errors.Is(context.Cause(ctx), ErrStalled) {
			w.client.CloseIdleConnections()
		}
		var ue *url.Error
		if errors.As(err, &ue) { // it quotes the URL
			err = ue.Err
			if to, perr := url.Parse(ue.URL); perr == nil && to.Host != "" && !strings.EqualFold(to.Host, u.Host) {
				err = fmt.Errorf("redirected to %s://%s: %w", to.Scheme, to.Host, err)
			}
		}
		if strings.Contains(err.Error(), "Location header") { // the error quotes the other URL
			err = errors.New("the server redirects to an invalid URL")
		}
		return nil, &Error{Op: op, URL: w.show(name), Err: err}
	}
	return resp, nil
}

// statusError returns the error for an unwanted response, whose body it closes.
func (w *web) statusError(op, name string, resp *http.Response) error {
	_, _ = io.CopyN(io.Discard, resp.Body, 4096) // lets the connection be used again
	resp.Body.Close()
	return &Error{Op: op, URL: w.show(name), Status: resp.StatusCode,
		RetryAfter: transport.ParseRetryAfter(resp.Header.Get("Retry-After"))}
}

func (w *web) info(name string, h http.Header) Info {
	i := Info{Name: name, Size: -1}
	if e := strings.TrimSpace(h.Get("ETag")); len(e) > 2 && e[0] == '"' && e[len(e)-1] == '"' {
		i.ETag = e[1 : len(e)-1]
	}
	i.ModTime, _ = http.ParseTime(h.Get("Last-Modified"))
	for _, v := range h.Values("X-Goog-Hash") {
		for _, f := range strings.Split(v, ",") {
			kind, value, _ := strings.Cut(strings.TrimSpace(f), "=")
			sum, err := base64.StdEncoding.DecodeString(value)
			switch {
			case err != nil || h.Get("X-Goog-Stored-Content-Encoding") == "gzip" &&
				h.Get("Content-Encoding") == "": // the sum is that of the compressed bytes
			case kind == "crc32c" && len(sum) == 4:
				i.CRC32C = sum
			case kind == "md5" && len(sum) == 16:
				i.MD5 = sum
			}
		}
	}
	return i
}

// weak reports whether another version may have the same tag and time: both depend on the server's
// clock, and the object had just changed according to the Date header, or there is no such header.
func weak(i Info, h http.Header) bool {
	if i.ModTime.IsZero() || i.ETag != "" && !clockTag(i) {
		return false
	}
	date, err := http.ParseTime(h.Get("Date"))
	return err != nil || recent(i.ModTime, date)
}

// clockTag reports whether the entity tag consists of the modification time in seconds and the
// size, as nginx (ngx_http_set_etag) and older Caddy (calculateEtag) make it.
func clockTag(i Info) bool {
	t := i.ModTime.Unix()
	return i.ETag == fmt.Sprintf("%x-%x", t, i.Size) || i.ETag == strconv.FormatInt(t, 36)+strconv.FormatInt(i.Size, 36)
}

func (w *web) Stat(ctx context.Context, name string) (Info, error) {
	resp, err := w.do(ctx, "looking up", http.MethodHead, name, nil)
	if err != nil {
		return Info{}, err
	}
	resp.Body.Close()
	i := w.info(name, resp.Header)
	i.Size = resp.ContentLength
	i.AmbiguousVersion = weak(i, resp.Header)
	switch resp.StatusCode {
	case http.StatusOK:
		if i.Size >= 0 {
			return i, nil
		}
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone,
		http.StatusNotImplemented:
		// The URL may be signed for GET, or the server may not support HEAD: request one byte.
	default:
		return Info{}, w.statusError("looking up", name, resp)
	}
	i, body, err := w.read(ctx, "looking up", name, 0, 1, nil)
	if err != nil {
		return Info{}, err
	}
	return i, body.Close()
}

func (w *web) Read(ctx context.Context, name string, offset, length int64, match *Info) (Info, io.ReadCloser, error) {
	return w.read(ctx, "reading", name, offset, length, match)
}

func (w *web) read(ctx context.Context, op, name string, offset, length int64, match *Info) (Info, io.ReadCloser,
	error) {
	if offset < 0 {
		return Info{}, nil, fmt.Errorf("reading %s: the offset is %d, expected 0 or more", w.show(name), offset)
	}
	if length == 0 {
		i, err := w.Stat(ctx, name)
		if err == nil && changed(match, i) {
			err = &Error{Op: op, URL: w.show(name), Err: ErrChanged}
		}
		if err != nil {
			return i, nil, err
		}
		return i, io.NopCloser(strings.NewReader("")), nil
	}
	if length > math.MaxInt64-offset {
		length = -1
	}
	header := map[string]string{}
	ranged := offset > 0 || length > 0
	if ranged {
		r := "bytes=" + strconv.FormatInt(offset, 10) + "-"
		if length > 0 {
			r += strconv.FormatInt(offset+length-1, 10)
		}
		header["Range"] = r
	}
	if match != nil && match.ETag != "" {
		header["If-Match"] = `"` + match.ETag + `"`
	} else if match != nil && !match.ModTime.IsZero() {
		header["If-Unmodified-Since"] = match.ModTime.UTC().Format(http.TimeFormat)
	}
	resp, err := w.do(ctx, op, http.MethodGet, name, header)
	if err != nil {
		return Info{}, nil, err
	}
	i := w.info(name, resp.Header)
	var b io.ReadCloser
	switch {
	case resp.StatusCode == http.StatusPartialContent && ranged:
		b, err = w.partial(&i, resp, offset, length)
	case resp.StatusCode == http.StatusOK:
		b, err = w.whole(&i, resp, offset, length)
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return w.pastEnd(ctx, op, name, resp, i, offset, match)
	default:
		return Info{}, nil, w.statusError(op, name, resp)
	}
	i.AmbiguousVersion = weak(i, resp.Header)
	if err == nil && changed(match, i) {
		err = ErrChanged
	}
	if err != nil {
		resp.Body.Close()
		return i, nil, &Error{Op: op, URL: w.show(name), Err: err}
	}
	return i, b, nil
}

// partial returns the body of a response with the requested range. A server may send less of it:
// the body then ends too early, and Retry resumes it.
func (w *web) partial(i *Info, resp *http.Response, offset, length int64) (io.ReadCloser, error) {
	first, last, total, err := parseContentRange(resp.Header.Get("Content-Range"))
	if err != nil {
		return nil, err
	}
	i.Size = total
	want := length
	if total >= 0 && (length < 0 || length > total-offset) {
		want = total - offset
	}
	n := last - first + 1
	if want < 0 {
		want = n // nothing else says where the object ends
	}
	if first != offset || n > want || resp.ContentLength >= 0 && resp.ContentLength != n {
		return nil, fmt.Errorf("the server sent bytes %d to %d of %d, expected %s", first, last,
			total, describeRange(offset, length))
	}
	return &exactly{r: io.LimitReader(resp.Body, n), c: resp.Body, left: want}, nil
}

func describeRange(offset, length int64) string {
	if length < 0 {
		return fmt.Sprintf("all from byte %d", offset)
	}
	return fmt.Sprintf("%d from byte %d", length, offset)
}

// whole returns the requested part of a response with the whole object, as servers without ranges
// send it.
func (w *web) whole(i *Info, resp *http.Response, offset, length int64) (io.ReadCloser, error) {
	i.Size, i.NoRanges = resp.ContentLength, offset > 0 || length >= 0
	left := int64(-1)
	if i.Size >= 0 {
		left = max(0, i.Size-offset)
	}
	if length >= 0 && (left < 0 || length < left) {
		if left < 0 {
			return &exactly{r: resp.Body, c: resp.Body, skip: offset, left: length, open: true}, nil
		}
		left = length
	}
	return &exactly{r: resp.Body, c: resp.Body, skip: offset, left: left}, nil
}

// pastEnd handles the refusal of a range. If the range begins at or past the object's end, it
// returns an empty body.
func (w *web) pastEnd(ctx context.Context, op, name string, resp *http.Response, i Info, offset int64,
	match *Info) (Info, io.ReadCloser, error) {
	header := resp.Header
	total, ok := strings.CutPrefix(header.Get("Content-Range"), "bytes */")
	size, err := strconv.ParseInt(total, 10, 64)
	if !ok || err != nil || size < 0 {
		size = -1 // some servers don't send the size
		if h, err := w.do(ctx, op, http.MethodHead, name, nil); err == nil {
			h.Body.Close()
			if h.StatusCode == http.StatusOK {
				i, size, header = w.info(name, h.Header), h.ContentLength, h.Header
			}
		}
	}
	refused := w.statusError(op, name, resp)
	if size < 0 || offset < size {
		return i, nil, refused
	}
	i.Size = size
	i.AmbiguousVersion = weak(i, header)
	if changed(match, i) {
		return i, nil, &Error{Op: op, URL: w.show(name), Err: ErrChanged}
	}
	return i, io.NopCloser(strings.NewReader("")), nil
}

// parseContentRange parses "bytes FIRST-LAST/TOTAL"; an unknown total is -1.
func parseContentRange(s string) (first, last, total int64, err error) {
	bad := fmt.Errorf("the server sent an invalid Content-Range %q", s)
	rest, ok := strings.CutPrefix(s, "bytes ")
	span, of, ok2 := strings.Cut(rest, "/")
	a, b, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, 0, bad
	}
	f, err1 := strconv.ParseUint(a, 10, 62)
	l, err2 := strconv.ParseUint(b, 10, 62)
	total = -1
	if of != "*" {
		t, err := strconv.ParseUint(of, 10, 62)
		if err != nil || t <= l {
			return 0, 0, 0, bad
		}
		total = int64(t)
	}
	if err1 != nil || err2 != nil || l < f {
		return 0, 0, 0, bad
	}
	return int64(f), int64(l), total, nil
}

// exactly is a body of left bytes; left -1 means all that arrive. If fewer arrive, the error is
// io.ErrUnexpectedEOF unless open is set.
type exactly struct {
	r    io.Reader
	c    io.Closer
	skip int64 // bytes to discard first
	left int64
	open bool
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	if e.skip > 0 { // in steps, so that the stall timer sees progress
		n, err := io.CopyN(io.Discard, e.r, min(e.skip, 256<<10))
		if e.skip -= n; err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	if e.left > 0 && int64(len(p)) > e.left {
		p = p[:e.left]
	}
	n, err := e.r.Read(p)
	if e.left > 0 {
		e.left -= int64(n)
	}
	if err == io.EOF && e.left > 0 && !e.open {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close does not drain the body, which may be endless. net/http reuses the connection of a body
// that was read to its announced end.
func (e *exactly) Close() error { return e.c.Close() }
