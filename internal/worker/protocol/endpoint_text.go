package protocol

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Bounds of an endpoint's text, which comes from files and variables.
const (
	MaxEndpoint  = 16 << 10
	MaxAddresses = 64
	PinPrefix    = "sha256//"
)

// CheckEndpoint returns an error if a worker could not use an endpoint. The error omits the token.
func CheckEndpoint(addresses []string, pin, token string) error {
	if n := len(addresses); n < 1 || n > MaxAddresses {
		return fmt.Errorf("endpoint has %d addresses, expected 1 to %d", n, MaxAddresses)
	}
	for _, a := range addresses {
		host, port, err := net.SplitHostPort(a)
		if err != nil || host == "" || len(host) > 255 || !IsPrintable(a) {
			return errors.New("endpoint address is not HOST:PORT")
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("endpoint port is not a number from 1 to 65535")
		}
	}
	if _, err := ParsePin(pin); err != nil {
		return err
	}
	if len(token) < 16 || len(token) > 512 {
		return errors.New("endpoint token does not have 16 to 512 bytes")
	}
	for _, b := range []byte(token) {
		if b <= ' ' || b > '~' { // it is sent in a header
			return errors.New("endpoint token has characters that a header can't hold")
		}
	}
	return nil
}

// ParsePin returns the 32 bytes of a pin.
func ParsePin(pin string) ([]byte, error) {
	text, ok := strings.CutPrefix(pin, PinPrefix)
	sum, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(sum) != 32 {
		return nil, errors.New("endpoint pin is not " + PinPrefix + " and 32 bytes in base64")
	}
	return sum, nil
}
