package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"leat/internal/storeurl"
	"leat/objstore/internal/transport"
)

var (
	// ErrChanged is returned when the object was replaced by another version while it was read.
	ErrChanged = errors.New("the object changed while it was read")
	// ErrNotResumed is returned when a body broke off and the object's version is not identified:
	// the rest might belong to another version.
	ErrNotResumed = errors.New("the body broke off and can't be resumed")
	// ErrStalled is returned when a store sent nothing for too long.
	ErrStalled = errors.New("the store sent nothing for too long")
	// ErrProxy is returned when a proxy refused to connect to the store.
	ErrProxy = transport.ErrProxy
	// ErrNoCredentials is returned when a store needs credentials and none were found.
	ErrNoCredentials = errors.New("no credentials found")
	// ErrProtocol is returned when the server's response lacks a field that the store's protocol
	// requires.
	ErrProtocol = errors.New("the server's response lacks a required field")
)

// Error describes a failed operation on an object or a bucket.
type Error struct {
	Op         string        // the operation: "reading", "looking up", "listing", "writing", "opening"
	URL        string        // without secrets
	Status     int           // HTTP status; 0 if there was no response
	Code       string        // the store's own error code, such as "NoSuchBucket"
	RetryAfter time.Duration // the pause the store asks for
	Err        error
}

// Error returns the operation, the object and the cause.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: ", e.Op, storeurl.Printable(e.URL))
	switch {
	case e.Status != 0:
		fmt.Fprintf(&b, "the server answered %d", e.Status)
		if s := http.StatusText(e.Status); s != "" {
			fmt.Fprintf(&b, " %s", s)
		}
		if e.Code != "" {
			fmt.Fprintf(&b, " (%s)", e.Code)
		}
		if e.Err != nil && !e.isStatus() {
			b.WriteString(", " + storeurl.RedactText(e.Err.Error()))
		} else if e.Status >= 300 && e.Status < 400 && strings.HasPrefix(e.URL, "http") {
			b.WriteString(", and the redirect has no usable target")
		}
	case e.Err == io.EOF:
		b.WriteString("the connection was closed without a response")
	case e.Err == io.ErrUnexpectedEOF:
		b.WriteString("the connection closed before all bytes had arrived")
	case e.Err != nil:
		b.WriteString(storeurl.RedactText(e.Err.Error()))
	default:
		b.WriteString("failed")
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, ", and asks to wait %v", e.RetryAfter.Round(time.Second))
	}
	return b.String()
}

// isStatus reports whether Err repeats what Status says.
func (e *Error) isStatus() bool {
	return e.Err == fs.ErrNotExist || e.Err == fs.ErrPermission || e.Err == ErrChanged
}

// Unwrap returns the causes: fs.ErrNotExist for a missing object, fs.ErrPermission for one that may
// not be read, ErrProxy, ErrChanged.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	var op *net.OpError
	if errors.As(e.Err, &op) && op.Op == "proxyconnect" {
		errs = append(errs, ErrProxy)
	}
	switch e.Status {
	case http.StatusProxyAuthRequired:
		errs = append(errs, ErrProxy)
	case http.StatusNotFound, http.StatusGone:
		errs = append(errs, fs.ErrNotExist)
	case http.StatusUnauthorized, http.StatusForbidden:
		errs = append(errs, fs.ErrPermission)
	case http.StatusPreconditionFailed:
		errs = append(errs, ErrChanged)
	}
	return errs
}

// Temporary reports whether another attempt may succeed.
func (e *Error) Temporary() bool {
	switch s := e.Status; {
	case s == http.StatusRequestTimeout, s == http.StatusTooEarly, s == http.StatusTooManyRequests:
		return true
	case s >= 500:
		return s != http.StatusNotImplemented && s != http.StatusHTTPVersionNotSupported
	case s >= 300:
		return false
	}
	var t interface{ Temporary() bool }
	if errors.As(e.Err, &t) {
		if _, network := t.(net.Error); !network { // the source classifies its own errors
			return t.Temporary()
		}
	}
	return temporary(e.Err)
}

// temporary reports whether another attempt may succeed after an error that is not a store's
// response.
func temporary(err error) bool {
	var dns *net.DNSError
	var op *net.OpError
	var ne net.Error
	var proxy *transport.ProxyError
	switch {
	case errors.As(err, &proxy):
		return (&Error{Status: proxy.Status}).Temporary()
	case errors.As(err, &dns):
		return dns.IsTemporary || dns.IsTimeout
	case errors.As(err, &op) && op.Timeout():
		return true // a connect timeout also claims to be context.DeadlineExceeded
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, ErrChanged),
		errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrPermission):
		return false
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, ErrStalled), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE),
		errors.Is(err, syscall.ECONNABORTED), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENETUNREACH),
		errors.Is(err, syscall.EHOSTUNREACH),
		errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, net.ErrClosed):
		return true
	case errors.As(err, &ne):
		return ne.Timeout()
	}
	// net/http has no error values for some ways in which a connection ends.
	text := err.Error()
	return strings.Contains(text, "server closed idle connection") || strings.HasSuffix(text,
		"EOF") || strings.Contains(text, "connection reset") ||
		strings.Contains(text, "http2: ")
}

// Temporary reports whether another attempt may succeed after err.
func Temporary(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Temporary()
	}
	var t interface{ Temporary() bool }
	if !errors.Is(err, context.DeadlineExceeded) && errors.As(err, &t) { // a deadline claims to be temporary
		return t.Temporary()
	}
	return temporary(err)
}
