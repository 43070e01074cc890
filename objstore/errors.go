package objstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
)

var (
	// ErrChanged tells that the object was replaced by another version while it was read.
	ErrChanged = errors.New("the object changed while it was read")
	// ErrStalled tells that a store gave nothing for too long.
	ErrStalled = errors.New("the store gave nothing for too long")
)

// Error is what went wrong with an object or a bucket.
type Error struct {
	Op         string        // what was done: "reading", "looking up", "listing", "writing", "opening"
	URL        string        // without secrets
	Status     int           // of HTTP; 0: there was no answer
	Code       string        // the store's own word for it, such as "NoSuchBucket"
	RetryAfter time.Duration // that the store asks for
	Err        error
}

// Error says what was done to which object, what came of it, and what to check.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: ", e.Op, printable(e.URL))
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
			b.WriteString(", " + RedactText(e.Err.Error()))
		}
	case e.Err == io.EOF:
		b.WriteString("the connection was closed without an answer")
	case e.Err == io.ErrUnexpectedEOF:
		b.WriteString("the connection broke off before all had come")
	case e.Err != nil:
		b.WriteString(RedactText(e.Err.Error()))
	default:
		b.WriteString("failed")
	}
	if c := e.check(); c != "" {
		b.WriteString(": " + c)
	}
	return b.String()
}

// printable is a name without signs that a terminal would obey.
func printable(name string) string {
	if strings.ContainsFunc(name, unicode.IsControl) {
		name = strings.Trim(strconv.Quote(name), `"`)
	}
	return name
}

// isStatus tells whether Err says no more than the status does.
func (e *Error) isStatus() bool {
	return e.Err == fs.ErrNotExist || e.Err == fs.ErrPermission || e.Err == ErrChanged
}

// check is what the user can do about it.
func (e *Error) check() string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var proxy *proxyError
	var op *net.OpError
	switch {
	case e.Status == http.StatusProxyAuthRequired, errors.As(e.Err, &proxy), errors.As(e.Err, &op) && op.Op == "proxyconnect":
		return adviceOnProxies
	case e.Err == io.EOF:
		return "check the host, the port, and whether it is http or https"
	case errors.Is(e.Err, ErrChanged), e.Status == http.StatusPreconditionFailed:
		return "run it again to read the new version"
	case errors.Is(e.Err, fs.ErrExist):
		return "give another name, or remove it first"
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return "check the credentials, whether a signed URL has expired, and what the store's policy allows; public data may need --anonymous"
	case e.Status == http.StatusNotFound && e.Code == "NoSuchBucket":
		return "check the bucket's name, the region and the endpoint"
	case e.Status == http.StatusNotFound:
		return "check the name, upper and lower case too, and the bucket"
	case strings.HasPrefix(e.URL, "http") && e.Status >= 300 && e.Status < 400:
		return "it does not say where to"
	case e.Status == http.StatusMovedPermanently || e.Status == http.StatusTemporaryRedirect:
		return "the bucket may be in another region: check --region"
	case e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable:
		return "the server is overloaded or limits requests: use fewer workers, or try later"
	case errors.As(e.Err, &dns):
		return "check the host's name and the network"
	case errors.As(e.Err, &cert), errors.As(e.Err, &unknown):
		return "the server's certificate is not trusted here: check the host's name and the machine's certificates"
	case errors.Is(e.Err, syscall.EMFILE):
		return "use fewer workers, or allow more open files (ulimit -n)"
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return "nothing listens there: check the host, the port and --endpoint"
	}
	return ""
}

// Unwrap gives the cause: fs.ErrNotExist for an object that is not there, fs.ErrPermission for one that may not be read, ErrChanged.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	switch e.Status {
	case http.StatusNotFound, http.StatusGone:
		errs = append(errs, fs.ErrNotExist)
	case http.StatusUnauthorized, http.StatusForbidden:
		errs = append(errs, fs.ErrPermission)
	case http.StatusPreconditionFailed:
		errs = append(errs, ErrChanged)
	}
	return errs
}

// Temporary tells whether another attempt may succeed.
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
		if _, network := t.(net.Error); !network { // a source says so of itself
			return t.Temporary()
		}
	}
	return temporary(e.Err)
}

// temporary tells whether another attempt may succeed after an error that is no answer of a store.
func temporary(err error) bool {
	var dns *net.DNSError
	var op *net.OpError
	var ne net.Error
	var proxy *proxyError
	switch {
	case errors.As(err, &proxy):
		return (&Error{Status: proxy.status}).Temporary()
	case errors.As(err, &dns):
		return dns.IsTemporary || dns.IsTimeout
	case errors.As(err, &op) && op.Timeout():
		return true // of connecting; it also says that it is context.DeadlineExceeded, which it is not
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrChanged),
		errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrPermission):
		return false
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, ErrStalled), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, syscall.ECONNABORTED), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH),
		errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, net.ErrClosed):
		return true
	case errors.As(err, &ne):
		return ne.Timeout()
	}
	// net/http has no name for some ends of a connection.
	text := err.Error()
	return strings.Contains(text, "server closed idle connection") || strings.HasSuffix(text, "EOF") || strings.Contains(text, "connection reset") ||
		strings.Contains(text, "http2: ")
}

// Temporary tells whether what failed may succeed when it is tried again.
func Temporary(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Temporary()
	}
	var t interface{ Temporary() bool }
	if !errors.Is(err, context.DeadlineExceeded) && errors.As(err, &t) { // which says of itself that it is
		return t.Temporary()
	}
	return temporary(err)
}
