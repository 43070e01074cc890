package worker

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
)

// Invitation leads a worker to a channel: where it listens, the key by which the worker knows it, and the token by which
// it knows the worker. Its text (MarshalText) is a secret; String, Format and LogValue show none of it.
type Invitation struct {
	// Addresses of the channel, HOST:PORT, tried in this order.
	Addresses []string `json:"addresses"`
	// Pin is the SHA-256 of the channel's public key (its SubjectPublicKeyInfo) as "sha256//BASE64", which curl's --pinnedpubkey takes.
	Pin string `json:"pin"`
	// Token is what a worker shows with each message.
	Token string `json:"token"`
}

// Bounds of an invitation's text, which comes from files and variables.
const (
	maxInvitation = 16 << 10
	maxAddresses  = 64
	pinPrefix     = "sha256//"
)

// IsZero tells that there is no invitation.
func (i Invitation) IsZero() bool { return len(i.Addresses) == 0 && i.Pin == "" && i.Token == "" }

// String names the addresses and nothing secret.
func (i Invitation) String() string {
	if i.IsZero() {
		return "no invitation"
	}
	return "an invitation to " + strings.Join(i.Addresses, ", ")
}

// Format writes what String returns, whatever the verb: %#v would show the token otherwise.
func (i Invitation) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, i.String()) }

// LogValue is what String returns: slog would write the text otherwise.
func (i Invitation) LogValue() slog.Value { return slog.StringValue(i.String()) }

// plainInvitation is an Invitation without its methods.
type plainInvitation Invitation

// MarshalText returns the invitation as one line of JSON: what a secret file or variable holds.
func (i Invitation) MarshalText() ([]byte, error) { return json.Marshal(plainInvitation(i)) }

// MarshalJSON refuses: an invitation within a larger message would be a secret that nobody looks for there. Its text is made by MarshalText.
func (i Invitation) MarshalJSON() ([]byte, error) {
	return nil, errors.New("worker: an invitation is a secret and has no place in JSON")
}

// UnmarshalText reads what MarshalText made; space around it is left out. Nothing is changed by a text that is refused. Its errors don't show the text.
func (i *Invitation) UnmarshalText(text []byte) error {
	if len(text) > maxInvitation {
		return fmt.Errorf("worker: the invitation is longer than %d bytes", maxInvitation)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var p plainInvitation
	if err := d.Decode(&p); err != nil {
		return errors.New("worker: the invitation is not the JSON that leat writes")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("worker: the invitation goes on after its end")
	}
	if err := Invitation(p).check(); err != nil {
		return err
	}
	*i = Invitation(p)
	return nil
}

func (i Invitation) check() error {
	if n := len(i.Addresses); n < 1 || n > maxAddresses {
		return fmt.Errorf("worker: the invitation has %d addresses; there are 1 to %d", n, maxAddresses)
	}
	for _, a := range i.Addresses {
		host, port, err := net.SplitHostPort(a)
		if err != nil || host == "" || len(host) > 255 || !printable(a) {
			return errors.New("worker: an address of the invitation is not HOST:PORT")
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("worker: the port of an address of the invitation is not a number from 1 to 65535")
		}
	}
	if _, err := parsePin(i.Pin); err != nil {
		return err
	}
	if len(i.Token) < 16 || len(i.Token) > 512 {
		return errors.New("worker: the token of the invitation is shorter than 16 or longer than 512 bytes")
	}
	for _, b := range []byte(i.Token) {
		if b <= ' ' || b > '~' { // it stands in a header
			return errors.New("worker: the token of the invitation has characters that a header can't hold")
		}
	}
	return nil
}

// parsePin returns the 32 bytes of a pin.
func parsePin(pin string) ([]byte, error) {
	text, ok := strings.CutPrefix(pin, pinPrefix)
	sum, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(sum) != 32 {
		return nil, errors.New("worker: the pin of the invitation is not " + pinPrefix + " and 32 bytes in base64")
	}
	return sum, nil
}

// WorkerName is how worker i of a kind is called, in messages, logs and file names: "slurm-3".
func WorkerName(kind string, i int) string { return kind + "-" + strconv.Itoa(i) }
