package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"runtime"
	"strconv"
)

// protocol is the version that docs/format/worker.md describes.
const protocol = 1

const (
	pathJoin      = "/v1/join"
	pathLease     = "/v1/lease"
	pathResult    = "/v1/result"
	pathError     = "/v1/error"
	pathHeartbeat = "/v1/heartbeat"
	pathLeave     = "/v1/leave"
)

// Header fields of a result.
const (
	headerWorker   = "Leat-Worker"
	headerLease    = "Leat-Lease"
	headerBlock    = "Leat-Block"
	headerChecksum = "Leat-Crc32c"
)

// Size limits of messages, in bytes except for counts.
const (
	maxMessage  = 64 << 10 // JSON sent by a worker
	maxHeader   = 8 << 10
	maxBuild    = 256
	maxText     = 4 << 10  // of an error
	maxStack    = 24 << 10 // of an error
	maxCode     = 64
	maxCores    = 1 << 16
	maxJobBytes = 256 << 20 // of the job description
	// answers to lease: payloads below two of the largest, and a note
	maxAnswer  = 32 << 20
	maxPayload = 8 << 20 // of a block
	maxNote    = 1 << 20
	maxLeases  = maxSlots + 1
)

// Bounds of a worker's configuration.
const (
	maxSlots       = 2048
	maxConnections = 64 // inherited
	maxName        = 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// VersionError is the error for a worker with another protocol version.
type VersionError struct{ Version int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("protocol version is %d, expected %d", e.Version, protocol)
}

// preset sets required numbers to an invalid value, so that check notices missing fields.
func (m *joinAnswer) preset()       { m.Worker = -1 }
func (m *leaseMessage) preset()     { m.Worker = -1 }
func (m *heartbeatMessage) preset() { m.Worker = -1 }
func (m *errorMessage) preset()     { m.Worker, m.Block = -1, -2 }
func (m *leaveMessage) preset()     { m.Worker = -1 }

// clean makes texts of the other side safe to show.
func (m *errorMessage) clean() { m.Message, m.Stack = sanitize(m.Message), sanitize(m.Stack) }
func (m *leaveMessage) clean() { m.Message, m.Stack = sanitize(m.Message), sanitize(m.Stack) }
func (m *refusal) clean() {
	m.Error, m.Code = truncate(sanitize(m.Error), maxText), truncate(sanitize(m.Code), maxCode)
}

type joinMessage struct {
	Protocol int    `json:"protocol"`
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Build    string `json:"build"`
	Arch     string `json:"arch"` // GOOS/GOARCH
	Host     string `json:"host"`
	PID      int    `json:"pid"`
	Cores    int    `json:"cores"`
	Slots    int    `json:"slots"`
}

func (m *joinMessage) check() error {
	switch {
	case m.Protocol < 1:
		return errors.New("protocol is less than 1")
	case !isName(m.Name):
		return errors.New("name is no valid worker name")
	case !isName(m.Kind):
		return errors.New("kind is no valid launcher name")
	case len(m.Build) > maxBuild || !isPrintable(m.Build):
		return errors.New("build is too long or not printable")
	case len(m.Arch) > maxName || !isPrintable(m.Arch):
		return errors.New("arch is too long or not printable")
	case len(m.Host) > 255 || !isPrintable(m.Host):
		return errors.New("host is too long or not printable")
	case m.PID < 0:
		return errors.New("pid is negative")
	case m.Cores < 1 || m.Cores > maxCores:
		return fmt.Errorf("cores is not within 1 to %d", maxCores)
	case m.Slots < 1 || m.Slots > maxSlots:
		return fmt.Errorf("slots is not within 1 to %d", maxSlots)
	}
	return nil
}

type joinAnswer struct {
	Worker    int             `json:"worker"`
	Workers   int             `json:"workers"`
	Slots     int             `json:"slots"`
	Single    bool            `json:"single,omitempty"`
	MaxResult int64           `json:"max_result"`
	Heartbeat int64           `json:"heartbeat_ms"`
	Silence   int64           `json:"silence_ms"`
	Poll      int64           `json:"poll_ms"`
	Job       json.RawMessage `json:"job"`
}

func (m *joinAnswer) check() error {
	const day = 24 * 3600 * 1000
	for _, ms := range []int64{m.Heartbeat, m.Silence, m.Poll} {
		if ms < 1 || ms > day {
			return errors.New("a time is not within 1 ms to 1 day")
		}
	}
	switch {
	case m.Worker < 0:
		return errors.New("worker is missing or negative")
	case m.Workers < 0:
		return errors.New("workers is negative")
	case m.Slots < 1 || m.Slots > maxSlots:
		return fmt.Errorf("slots is not within 1 to %d", maxSlots)
	case m.MaxResult < 0:
		return errors.New("max_result is negative")
	}
	return nil
}

type leaseMessage struct {
	Worker int      `json:"worker"`
	Want   int      `json:"want"`
	Held   []uint64 `json:"held"`
	Wait   int64    `json:"wait_ms"`
	Noted  uint64   `json:"noted"`
}

func (m *leaseMessage) check() error {
	switch {
	case m.Worker < 0:
		return errors.New("worker is missing or negative")
	case m.Want < 0 || m.Want > maxLeases:
		return fmt.Errorf("want is not within 0 to %d", maxLeases)
	case m.Held == nil:
		return errors.New("held is missing, expected a list")
	case len(m.Held) > maxLeases:
		return fmt.Errorf("held has more than %d items", maxLeases)
	case m.Wait < 0:
		return errors.New("wait_ms is negative")
	}
	return nil
}

type leaseAnswer struct {
	Leases []leaseGrant    `json:"leases,omitempty"`
	Noted  uint64          `json:"noted,omitempty"`
	Note   json.RawMessage `json:"note,omitempty"`
	End    string          `json:"end,omitempty"`
}

type leaseGrant struct {
	Lease   uint64          `json:"lease"`
	Block   int             `json:"block"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

func (m *leaseAnswer) check() error {
	if len(m.Leases) > maxLeases {
		return fmt.Errorf("leases has more than %d items", maxLeases)
	}
	for _, l := range m.Leases {
		if l.Lease == 0 || l.Block < 0 {
			return errors.New("a lease has the number 0, or its block is negative")
		}
	}
	return checkEnd(m.End)
}

// How a run has ended.
const (
	endDone   = "done"
	endFailed = "failed"
)

func checkEnd(end string) error {
	switch end {
	case "", endDone, endFailed:
		return nil
	}
	return errors.New(`end is neither "done" nor "failed"`)
}

type heartbeatMessage struct {
	Worker  int      `json:"worker"`
	Wait    int64    `json:"wait_ms"`
	Noted   uint64   `json:"noted"`
	Dropped []uint64 `json:"dropped,omitempty"`
}

func (m *heartbeatMessage) check() error {
	switch {
	case len(m.Dropped) > maxLeases:
		return fmt.Errorf("dropped has more than %d items", maxLeases)
	case m.Worker < 0:
		return errors.New("worker is missing or negative")
	case m.Wait < 0:
		return errors.New("wait_ms is negative")
	}
	return nil
}

type heartbeatAnswer struct {
	Superseded []uint64        `json:"superseded,omitempty"`
	Noted      uint64          `json:"noted,omitempty"`
	Note       json.RawMessage `json:"note,omitempty"`
	End        string          `json:"end,omitempty"`
}

func (m *heartbeatAnswer) check() error {
	if len(m.Superseded) > maxLeases {
		return fmt.Errorf("superseded has more than %d items", maxLeases)
	}
	return checkEnd(m.End)
}

type errorMessage struct {
	Worker  int    `json:"worker"`
	Lease   uint64 `json:"lease"` // 0: the worker itself can't continue
	Block   int    `json:"block"` // -1 if Lease is 0
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
	Code    string `json:"code,omitempty"`
}

func (m *errorMessage) check() error {
	switch {
	case m.Worker < 0:
		return errors.New("worker is missing or negative")
	case (m.Lease == 0) != (m.Block == -1):
		return errors.New("exactly one of lease 0 and block -1 is given")
	case m.Block < -1:
		return errors.New("block is missing or less than -1")
	case m.Message == "":
		return errors.New("message is empty")
	case len(m.Code) > maxCode || !isPrintable(m.Code):
		return errors.New("code is too long or not printable")
	}
	return nil
}

type leaveMessage struct {
	Worker int `json:"worker"`
	// Error of closing the handler; "": none.
	Message string `json:"message,omitempty"`
	Stack   string `json:"stack,omitempty"`
	Code    string `json:"code,omitempty"`
}

func (m *leaveMessage) check() error {
	switch {
	case m.Worker < 0:
		return errors.New("worker is missing or negative")
	case m.Message == "" && (m.Stack != "" || m.Code != ""):
		return errors.New("message is empty, but stack or code is not")
	case len(m.Code) > maxCode || !isPrintable(m.Code):
		return errors.New("code is too long or not printable")
	}
	return nil
}

// refusal is the answer to a refused message.
type refusal struct {
	Error string `json:"error"`
	Code  string `json:"code"`
}

func (m *refusal) check() error { return nil }

// empty is an answer without fields.
type empty struct{}

func (*empty) check() error { return nil }

// encode encodes a message. Embedded JSON such as the job does not grow: "<" and the like are not
// escaped.
func encode(m any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

type checker[T any] interface {
	*T
	check() error
}

// decode decodes one message: an object without unknown fields, and nothing after it.
func decode[T any, P checker[T]](data []byte) (m T, err error) {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return m, errors.New("not a JSON object")
	}
	switch m := any(&m).(type) {
	case interface{ preset() }:
		m.preset()
	case *joinMessage:
		// Another version may have other fields.
		var v struct {
			Protocol int `json:"protocol"`
		}
		if json.Unmarshal(data, &v) == nil && v.Protocol > 0 && v.Protocol != protocol {
			err = &VersionError{v.Protocol}
		}
	}
	if err != nil {
		return m, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return m, errors.New("data after the end of the message")
	}
	if err := P(&m).check(); err != nil {
		return m, err
	}
	if m, ok := any(&m).(interface{ clean() }); ok {
		m.clean()
	}
	return m, nil
}

// resultHeader describes the body of a result.
type resultHeader struct {
	worker   int
	lease    uint64
	block    int
	checksum uint32
}

func parseResultHeader(h http.Header) (r resultHeader, err error) {
	number := func(name string, base, bits int) (n uint64) {
		v := h[name]
		if err != nil {
			return 0
		}
		if len(v) != 1 {
			err = fmt.Errorf("header %s is missing or repeated", name)
			return 0
		}
		if n, err = strconv.ParseUint(v[0], base, bits); err != nil {
			err = fmt.Errorf("header %s is not a valid number", name)
		}
		return n
	}
	r.worker = int(number(headerWorker, 10, 31))
	r.lease = number(headerLease, 10, 64)
	r.block = int(number(headerBlock, 10, 31))
	if v := h[headerChecksum]; err == nil && len(v) == 1 && len(v[0]) != 8 {
		return r, fmt.Errorf("header %s does not have 8 hexadecimal digits", headerChecksum)
	}
	r.checksum = uint32(number(headerChecksum, 16, 32))
	return r, err
}

// thisArch returns this program's GOOS/GOARCH.
func thisArch() string { return runtime.GOOS + "/" + runtime.GOARCH }
