package coordinator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"math/big"
	"time"

	"leat/internal/worker/protocol"
)

// identity is the coordinator's key pair for one run.
type identity struct {
	certificate tls.Certificate
	pin         string
}

// newIdentity creates a key and a self-signed certificate: workers verify it by its pin.
func newIdentity(now time.Time) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "leat"},
		// Workers verify only the pin; the dates are for other clients, whose clocks may be wrong.
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
		pin:         protocol.PinPrefix + base64.StdEncoding.EncodeToString(sum[:]),
	}, nil
}

func (i *identity) serverConfig() *tls.Config {
	return &tls.Config{
		Certificates:           []tls.Certificate{i.certificate},
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"http/1.1"},
		SessionTicketsDisabled: true,
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			if k, ok := h.Conn.(*connection); ok {
				k.beginHandshake()
			}
			return nil, nil
		},
	}
}

// newToken returns 256 random bits as text.
func newToken() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}
