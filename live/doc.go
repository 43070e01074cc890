// Package live shows a run while it goes, to a browser, to Prometheus and to curl.
//
// A [Page] asks once a second for the [Status] of the run and serves it by HTTP until [Page.Close]:
//
//	/             a page that draws it, one file that needs nothing from elsewhere
//	/status.json  the Status, with what it was over time
//	/events       the same as server-sent events, one each second
//	/metrics      numbers for Prometheus
//
// Only who has the token gets an answer: [Page.Listen] makes one for each page and returns it in a
// URL. Opening that URL in a browser turns it into a cookie; scripts give it as ?token=TOKEN, or as
// "Authorization: Bearer TOKEN". A port alone is one of the loopback. Nothing can be changed
// through a page: it answers GET and HEAD.
//
// What it does NOT promise: the token and all that is shown travel as plain text, so an address
// that other machines reach is for networks that are trusted; elsewhere tunnel the port by ssh.
// Browsers send cookies to all ports of a host: another user's server on the same machine sees the
// cookie of who opens both in one browser. Status is shown as it is given: the caller removes
// secrets from names and command lines.
package live
