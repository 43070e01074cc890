// Package storeurl distinguishes URLs of stores from paths, and prints URLs, and texts with them,
// without secrets.
package storeurl

import (
	"net/url"
	"slices"
	"strings"

	"leat/internal/lazyregexp"
)

// Redact returns a URL for printing and storing: without userinfo, signatures, other secrets and
// the fragment. It returns other texts unchanged.
func Redact(raw string) string { return redact(raw, false) }

// Identity returns a form of a URL, without secrets, that differs for different objects.
func Identity(raw string) string { return redact(raw, true) }

// redact returns the form to print, or the one that identifies the object. The printed form leaves
// out every parameter that may be secret. Such a parameter ("key", "sig") may also name the object,
// so the identity contains a hash of it, unless it belongs to a complete signature, which changes.
func redact(raw string, identity bool) string {
	if !Is(raw) {
		return raw
	}
	scheme, rest, _ := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	web := scheme == "http" || scheme == "https"
	host, tail := authority(rest, web || scheme == "file")
	if web {
		host = strings.ToLower(host)
		for port := map[string]string{"http": ":80", "https": ":443"}[scheme]; strings.HasSuffix(host, port); {
			host = strings.TrimSuffix(host, port)
		}
	}
	if web || scheme == "file" {
		tail, _, _ = strings.Cut(tail, "#")
	}
	// A question mark starts a query here even in schemes whose names may contain one, since users
	// paste signatures there.
	name, query, _ := strings.Cut(tail, "?")
	s := scheme + "://" + host + name
	if query = printableQuery(query, web, identity); query != "" {
		s += "?" + query
	}
	return s
}

// authority splits what follows "://" into the host, without userinfo, and the rest.
func authority(rest string, fragment bool) (host, tail string) {
	ends := "/?"
	if fragment {
		ends = "/?#"
	}
	for {
		host, tail = rest, ""
		if i := strings.IndexAny(rest, ends); i >= 0 {
			host, tail = rest[:i], rest[i:]
		}
		if i := strings.LastIndex(host, "@"); i >= 0 {
			host = host[i+1:]
		}
		// A port that is not a number may be the start of a password with a slash, which URL
		// parsers reject.
		_, port, ok := strings.Cut(host[strings.LastIndex(host, "]")+1:], ":")
		at := strings.LastIndex(tail, "@")
		if !ok || strings.Trim(port, "0123456789") == "" || at < 0 {
			return host, tail
		}
		rest = tail[at+1:]
	}
}

// printableQuery returns the printable part of a query. With sorted, it orders parameters by name
// and keeps the order of equal names, which may matter.
func printableQuery(query string, sorted, identity bool) string {
	if query == "" {
		return ""
	}
	params := strings.Split(query, "&")
	names := map[string]bool{}
	for _, p := range params {
		for _, q := range strings.Split(p, ";") {
			names[paramName(q)] = true
		}
	}
	signed := signaturesIn(names)
	var open []string
	for _, p := range params {
		var kept []string
		for _, q := range strings.Split(p, ";") { // some servers accept it as a separator
			switch name := paramName(q); {
			case q == "":
			case identity && (signed.has(name) || edgeToken(q)):
			case identity && secret(name):
				kept = append(kept, name+"="+hashed(q))
			case !identity && (secret(name) || partOfSignature(name, names)):
			default:
				kept = append(kept, q)
			}
		}
		if len(kept) > 0 {
			open = append(open, strings.Join(kept, ";"))
		}
	}
	if sorted {
		slices.SortStableFunc(open, func(a, b string) int { return strings.Compare(paramName(a), paramName(b)) })
	}
	return strings.Join(open, "&")
}

// partOfSignature reports whether a parameter may belong to a signature whose main parameter is
// among the names. Tencent's parameters all begin with q-.
func partOfSignature(name string, names map[string]bool) bool {
	return sharedAccess[name] && names["sig"] || signedPolicy[name] && (names["signature"] || names["key-pair-id"]) ||
		ossSigned[name] && names["x-oss-signature"] || strings.HasPrefix(name, "q-") && names["q-signature"]
}

// signature is a scheme of signed URLs, with parameter names in lower case.
type signature struct {
	all      []string // every signed URL has these
	any      []string // and at least one of these, if there are any
	optional []string // and may have these
	prefix   string   // and any name with this prefix
}

// signatures lists the schemes whose parameters are not part of an object's identity.
var signatures = []signature{
	// Azure, shared access signatures of a service or an account.
	{all: words("sig sv"), any: words("se si"), optional: words(sharedAccessNames)},
	// Amazon S3 version 4 and 2, and Google's of the same form.
	{all: words("x-amz-algorithm x-amz-credential x-amz-date x-amz-expires x-amz-signedheaders x-amz-signature"),
		prefix: "x-amz-"},
	{all: words("awsaccesskeyid expires signature"), optional: words("x-amz-security-token")},
	{all: words("x-goog-algorithm x-goog-credential x-goog-date x-goog-expires x-goog-signedheaders x-goog-signature"),
		prefix: "x-goog-"},
	{all: words("googleaccessid expires signature")},
	// Amazon CloudFront, with a canned or a custom policy.
	{all: words("key-pair-id signature"), any: words("expires policy"), optional: words("hash-algorithm")},
	// Alibaba OSS version 4 and 1.
	{all: words("x-oss-signature-version x-oss-credential x-oss-date x-oss-expires x-oss-signature"),
		optional: words("x-oss-security-token x-oss-additional-headers")},
	{all: words("ossaccesskeyid expires signature"), optional: words("security-token")},
	// Tencent COS.
	{all: words("q-sign-algorithm q-ak q-sign-time q-key-time q-signature"), optional: words("x-cos-security-token"),
		prefix: "q-"},
}

// signaturesIn returns the schemes whose required parameters are among the names.
func signaturesIn(names map[string]bool) (found wholeSignatures) {
	is := func(name string) bool { return names[name] }
	for _, s := range signatures {
		if !slices.ContainsFunc(s.all, func(name string) bool { return !names[name] }) &&
			(s.any == nil || slices.ContainsFunc(s.any, is)) {
			found = append(found, s)
		}
	}
	return found
}

type wholeSignatures []signature

// has reports whether a parameter belongs to one of the signatures.
func (w wholeSignatures) has(name string) bool {
	for _, s := range w {
		if slices.Contains(s.all, name) || slices.Contains(s.any, name) || slices.Contains(s.optional,
			name) || s.prefix != "" && strings.HasPrefix(name, s.prefix) {
			return true
		}
	}
	return false
}

// edgeToken reports whether a parameter is an Akamai token, which is a complete signature in one
// parameter: hdnts=exp=…~acl=…~hmac=….
func edgeToken(param string) bool {
	name := paramName(param)
	return (name == "hdnts" || name == "hdnea" || name == "hdntl") && strings.Contains(param,
		"=exp=") && strings.Contains(param, "~hmac=")
}

func paramName(param string) string {
	name, _, _ := strings.Cut(param, "=")
	if n, err := url.QueryUnescape(name); err == nil {
		name = n
	}
	return strings.ToLower(strings.TrimSpace(name))
}

// secrets holds the parameters of signed URLs and common names of keys and passwords.
var secrets = setOf("signature awsaccesskeyid googleaccessid key-pair-id sig token access_token id_token refresh_token auth authorization key apikey api_key api-key " +
	"subscription-key client_secret secret password passwd pwd session jwt ossaccesskeyid hdnts hdnea hdntl sign hmac credential bearer")

// sharedAccess holds the parameters of Azure's shared access signatures other than the signature,
// signedPolicy those of S3's older form and of CloudFront, ossSigned those of Alibaba's. Without a
// signature they are ordinary parameters, which may distinguish objects.
var (
	ossSigned    = setOf("x-oss-credential x-oss-date x-oss-expires x-oss-signature-version x-oss-additional-headers")
	sharedAccess = setOf(sharedAccessNames)
	signedPolicy = setOf("expires policy")
)

const sharedAccessNames = "se sp sv sr st ss srt spr sip sdd ske skoid sks skt sktid skv saoid suoid scid"

func words(list string) []string { return strings.Fields(list) }

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// secret reports whether a parameter is secret, by its name in lower case.
func secret(name string) bool {
	if secrets[name] || strings.HasPrefix(name, "x-amz-") || strings.HasPrefix(name,
		"x-goog-") || strings.HasPrefix(name, "x-ms-") {
		return true
	}
	for _, part := range []string{"token", "secret", "signature", "password"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

var (
	urlInText   = lazyregexp.New(`[A-Za-z][A-Za-z0-9+.-]*://\S+`) // may end too late, see urlEnd
	afterQuote  = lazyregexp.New("^([,:;)\\]}>\"'`\\\\]|[.!?]*$)")
	paramInText = lazyregexp.New(`([A-Za-z0-9_.%-]+)=[^\s&;"'<>]+`)
)

// RedactURLs returns a text for printing, with the URLs in it redacted.
func RedactURLs(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	var b strings.Builder
	done := 0
	for {
		at := urlInText.FindStringIndex(text[done:])
		if at == nil {
			return b.String() + text[done:]
		}
		from, to := done+at[0], done+at[1]
		var before byte
		if from > 0 {
			before = text[from-1]
		}
		to = from + urlEnd(before, text[from:to])
		b.WriteString(text[done:from] + Redact(text[from:to]))
		done = to
	}
}

// urlEnd returns the length of the URL at the start of run, a text without spaces that follows the
// character before. URLs may contain quotes: a quote ends the URL only if it closes a quotation or
// ends the run.
func urlEnd(before byte, run string) int {
	if end, ok := map[byte]byte{'"': '"', '\'': '\'', '`': '`', '<': '>', '(': ')'}[before]; ok {
		for i := range len(run) {
			if run[i] == end && afterQuote.MatchString(run[i+1:]) {
				return i
			}
		}
	}
	return len(strings.TrimRight(run, "\"'`<>,;:.!)]}"))
}

// RedactText returns a text for printing, such as a library's error, with the URLs and parameters
// in it redacted.
func RedactText(text string) string {
	text = RedactURLs(text)
	if strings.Contains(text, "=") {
		text = paramInText.ReplaceAllStringFunc(text, func(p string) string {
			name, _, _ := strings.Cut(p, "=")
			if !secret(paramName(name)) {
				return p
			}
			return name + "=..."
		})
	}
	return text
}
