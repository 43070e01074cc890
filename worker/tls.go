package worker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"math/big"
	"time"
)

// errPin is told by a worker of a channel that has another key than its invitation says: it has sent nothing.
var errPin = errors.New("its key is not the one that the invitation names")

// identity is the key that a channel has for one run.
type identity struct {
	certificate tls.Certificate
	pin         string
}

// newIdentity makes a key, and a certificate that nobody has signed: workers know it by its pin.
func newIdentity(now time.Time) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "leat"},
		// Workers look at the pin alone; the dates are for other clients, whose clocks may be off.
		NotBefore: now.AddDate(0, 0, -2),
		NotAfter:  now.AddDate(10, 0, 0),
		KeyUsage:  x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return &identity{
		certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: cert},
		pin:         pinPrefix + base64.StdEncoding.EncodeToString(sum[:]),
	}, nil
}

func (i *identity) serverConfig() *tls.Config {
	return &tls.Config{
		Certificates:           []tls.Certificate{i.certificate},
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"http/1.1"},
		SessionTicketsDisabled: true,
	}
}

// clientConfig has a connection refused, before anything is sent on it, unless the channel has the pinned key.
func clientConfig(pin string) (*tls.Config, error) {
	want, err := parsePin(pin)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"http/1.1"},
		SessionTicketsDisabled: true, // a resumed session would not be verified anew
		InsecureSkipVerify:     true, // no authority and no name: the pin is the proof, below
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errPin
			}
			sum := sha256.Sum256(s.PeerCertificates[0].RawSubjectPublicKeyInfo)
			if subtle.ConstantTimeCompare(sum[:], want) != 1 {
				return errPin
			}
			return nil
		},
	}, nil
}

// newToken returns 256 random bits as text.
func newToken() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}
