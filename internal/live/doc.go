// Package live shows a run in progress to a browser, to Prometheus and to scripts.
//
// A [Page] asks for the run's [Status] once a second and serves it by HTTP until [Page.Close]:
//
//	/             a page that shows the status; it loads nothing from elsewhere
//	/status.json  the Status and its history
//	/events       the same as server-sent events, one a second
//	/metrics      metrics for Prometheus
//
// Every request needs a token, which is part of the URL that [Page.Listen] returns, or fixed by
// [Options]. Opening the URL with the token in a browser stores it in a cookie; scripts send it as
// ?token=TOKEN or as "Authorization: Bearer TOKEN". The page is read-only: it accepts GET and HEAD.
//
// The package does not encrypt: the token and the status travel as plain text, so addresses that
// other machines reach are for trusted networks; elsewhere, tunnel the port by ssh. Browsers send
// cookies to all ports of a host: another user's server on the same machine receives the cookie of
// a browser that opens both. The status is shown as it is: the caller removes secrets from names
// and command lines.
package live
