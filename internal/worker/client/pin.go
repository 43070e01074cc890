package client

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"

	"leat/internal/worker/protocol"
)

// ErrWrongKey means that a server has another key than the endpoint's pin specifies. Nothing was
// sent to it after the handshake.
var ErrWrongKey = errors.New("the server's key differs from the endpoint's pin")

// clientConfig returns a TLS configuration that accepts only a server with the pinned key.
func clientConfig(pin string) (*tls.Config, error) {
	want, err := protocol.ParsePin(pin)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"http/1.1"},
		SessionTicketsDisabled: true, // a resumed session would not be verified
		// VerifyConnection checks the pin instead of names and authorities
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return ErrWrongKey
			}
			sum := sha256.Sum256(s.PeerCertificates[0].RawSubjectPublicKeyInfo)
			if subtle.ConstantTimeCompare(sum[:], want) != 1 {
				return ErrWrongKey
			}
			return nil
		},
	}, nil
}
