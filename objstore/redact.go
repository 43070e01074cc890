package objstore

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Redact is a URL for printing and storing: without userinfo, signatures and other secrets, and without a fragment. Other texts stay as they are.
func Redact(raw string) string { return redact(raw, false) }

// redact makes the form that is printed, or the one that is an object's identity. They differ by the parameter "key": services pass keys by it, and others
// names of objects. Its value is not told; but two objects must not get one identity.
func redact(raw string, identity bool) string {
	if !IsURL(raw) {
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
	// Whatever follows a question mark is taken for a query, also where a name may have one: a signature was put there.
	name, query, _ := strings.Cut(tail, "?")
	s := scheme + "://" + host + name
	if query = openQuery(query, web, identity); query != "" {
		s += "?" + query
	}
	return s
}

// authority parts what follows "://" into the host, without userinfo, and the rest.
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
		// A port that is no number may be the beginning of a password with a slash, which no parser of URLs takes.
		_, port, ok := strings.Cut(host[strings.LastIndex(host, "]")+1:], ":")
		at := strings.LastIndex(tail, "@")
		if !ok || strings.Trim(port, "0123456789") == "" || at < 0 {
			return host, tail
		}
		rest = tail[at+1:]
	}
}

// openQuery is what of a query may be told, in a fixed order where the order of different parameters means nothing.
func openQuery(query string, sorted, identity bool) string {
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
	var open []string
	for _, p := range params {
		var kept []string
		for _, q := range strings.Split(p, ";") { // which some take for another ampersand
			switch name := paramName(q); {
			case q == "":
			case identity && mayTell(name):
				kept = append(kept, name+"="+hashed(q))
			case secret(name) || besideSignature(name, names):
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

// besideSignature tells whether a parameter belongs to a signature that is among the names: Tencent's are all that begin with q-.
func besideSignature(name string, names map[string]bool) bool {
	return sharedAccess[name] && names["sig"] || signedPolicy[name] && (names["signature"] || names["key-pair-id"]) ||
		ossSigned[name] && names["x-oss-signature"] || strings.HasPrefix(name, "q-") && names["q-signature"]
}

// mayTell tells whether a parameter that may be a secret may also tell objects apart, as page_token does: it is part of an identity, as a hash. What belongs to a
// known scheme of signing does not: it is another one each time.
func mayTell(name string) bool {
	signing := strings.HasPrefix(name, "x-amz-") || strings.HasPrefix(name, "x-goog-") || strings.HasPrefix(name, "x-ms-") || setOfSigning[name]
	return secret(name) && !signing
}

var setOfSigning = setOf("signature awsaccesskeyid googleaccessid ossaccesskeyid key-pair-id sig security-token x-oss-signature x-oss-security-token " +
	"q-signature x-cos-security-token hdnts hdnea hdntl")

func paramName(param string) string {
	name, _, _ := strings.Cut(param, "=")
	if n, err := url.QueryUnescape(name); err == nil {
		name = n
	}
	return strings.ToLower(strings.TrimSpace(name))
}

// secrets are parameters of signed URLs, and names by which programs pass keys.
var secrets = setOf("signature awsaccesskeyid googleaccessid key-pair-id sig token access_token id_token refresh_token auth authorization key apikey api_key api-key " +
	"subscription-key client_secret secret password passwd pwd session jwt ossaccesskeyid hdnts hdnea hdntl sign hmac credential bearer")

// sharedAccess are the parameters beside the signature in Azure's shared access signatures; signedPolicy those of S3's older form and of CloudFront; ossSigned those of Alibaba's. By
// themselves they are names like others, which may tell objects apart.
var (
	ossSigned    = setOf("x-oss-credential x-oss-date x-oss-expires x-oss-signature-version x-oss-additional-headers")
	sharedAccess = setOf("se sp sv sr st ss srt spr sip sdd ske skoid sks skt sktid skv saoid suoid scid")
	signedPolicy = setOf("expires policy")
)

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// secret tells whether a parameter, by its name in lower case, is one.
func secret(name string) bool {
	if secrets[name] || strings.HasPrefix(name, "x-amz-") || strings.HasPrefix(name, "x-goog-") || strings.HasPrefix(name, "x-ms-") {
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
	urlInText   = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://\S+`) // and what may follow it, see urlEnd
	afterQuote  = regexp.MustCompile("^([,:;)\\]}>\"'`\\\\]|[.!?]*$)")
	paramInText = regexp.MustCompile(`([A-Za-z0-9_.%-]+)=[^\s&;"'<>]+`)
)

// RedactURLs is a text for printing in which URLs may stand: without their secrets.
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

// urlEnd is where a URL ends that begins a run of text without spaces, behind a sign. Quotes may stand in a URL that people have typed: one ends it where
// it was opened before it, and what follows looks as after a quotation; others do at the end of the run.
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

// RedactText is a text for printing in which URLs and parameters may stand, such as an error of a library's: without their secrets.
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
