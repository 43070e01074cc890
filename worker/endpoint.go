package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"leat/internal/worker/protocol"
)

// Endpoint holds what a worker needs to join a run: the coordinator's addresses, the pin of its
// key, and the token that authenticates the worker. Its text (MarshalText) is a secret; Format and
// LogValue show only the addresses.
type Endpoint struct {
	// Addresses are the coordinator's, HOST:PORT, tried in this order.
	Addresses []string `json:"addresses"`
	// Pin is the SHA-256 of the coordinator's public key (its SubjectPublicKeyInfo) as
	// "sha256//BASE64", the form of curl's --pinnedpubkey.
	Pin string `json:"pin"`
	// Token is sent with each message.
	Token string `json:"token"`
}

// public returns the addresses and nothing secret.
func (i Endpoint) public() string {
	if len(i.Addresses) == 0 {
		return "no endpoint"
	}
	return "endpoint " + strings.Join(i.Addresses, ", ")
}

// Format writes the addresses for every verb.
func (i Endpoint) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, i.public()) }

// LogValue returns what Format writes: slog would otherwise use MarshalText.
func (i Endpoint) LogValue() slog.Value { return slog.StringValue(i.public()) }

// plainEndpoint is an Endpoint without its methods.
type plainEndpoint Endpoint

// MarshalText returns the endpoint as one line of JSON, the content of secret files and variables.
func (i Endpoint) MarshalText() ([]byte, error) { return json.Marshal(plainEndpoint(i)) }

// MarshalJSON always fails, so that no secret gets into a larger message by accident. MarshalText
// returns the text.
func (i Endpoint) MarshalJSON() ([]byte, error) {
	return nil, errors.New("an endpoint is a secret and is not encoded as JSON")
}

// UnmarshalText parses what MarshalText returned; surrounding space is ignored. An error leaves the
// endpoint unchanged and does not quote the text.
func (i *Endpoint) UnmarshalText(text []byte) error {
	if len(text) > protocol.MaxEndpoint {
		return fmt.Errorf("endpoint is longer than %d bytes", protocol.MaxEndpoint)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var p plainEndpoint
	if err := d.Decode(&p); err != nil {
		return errors.New("endpoint is not an object with addresses, pin and token")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("endpoint has data after its end")
	}
	if err := protocol.CheckEndpoint(p.Addresses, p.Pin, p.Token); err != nil {
		return err
	}
	*i = Endpoint(p)
	return nil
}

// WorkerName returns the name of a launcher's worker i, as used in messages, logs and file names:
// "slurm-3".
func WorkerName(kind string, i int) string { return kind + "-" + strconv.Itoa(i) }
