package protocol

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

// Version is the version of the protocol that docs/format/worker.md describes.
const Version = 1

// Paths of the messages.
const (
	PathJoin      = "/v1/join"
	PathLease     = "/v1/lease"
	PathResult    = "/v1/result"
	PathError     = "/v1/error"
	PathHeartbeat = "/v1/heartbeat"
	PathLeave     = "/v1/leave"
)

// Header fields of a result.
const (
	HeaderWorker   = "Leat-Worker"
	HeaderLease    = "Leat-Lease"
	HeaderBlock    = "Leat-Block"
	HeaderChecksum = "Leat-Crc32c"
)

// Size limits of messages, in bytes except for counts.
const (
	MaxMessage = 64 << 10 // JSON sent by a worker, without the value of Leave
	MaxHeader  = 8 << 10
	maxBuild   = 256
	MaxText    = 4 << 10  // of an error
	MaxStack   = 24 << 10 // of an error
	MaxCode    = 64
	MaxCores   = 1 << 16
	MaxJob     = 256 << 20 // of the job description
	// MaxAnswer covers an answer to lease: payloads of less than twice MaxPayload, and a note.
	MaxAnswer  = 32 << 20
	MaxPayload = 8 << 20 // of a block
	MaxNote    = 1 << 20
	MaxValue   = 32 << 20     // of a worker
	MaxLeases  = MaxSlots + 1 // that a worker holds
)

// Bounds of a worker's configuration.
const (
	MaxSlots       = 2048
	MaxConnections = 64 // inherited
	MaxName        = 64
)

// Castagnoli is the table for checksums of results.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// VersionError is the error for a worker with another protocol version.
type VersionError struct{ Version int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("protocol version is %d, expected %d", e.Version, Version)
}

// preset sets required numbers to an invalid value, so that check notices missing fields.
func (m *JoinAnswer) preset()   { m.Worker = -1 }
func (m *LeaseRequest) preset() { m.Worker = -1 }
func (m *Heartbeat) preset()    { m.Worker = -1 }
func (m *ErrorReport) preset()  { m.Worker, m.Block = -1, -2 }
func (m *Leave) preset()        { m.Worker = -1 }

// clean replaces control characters in texts from the other side.
func (m *ErrorReport) clean() { m.Message, m.Stack = Sanitize(m.Message), Sanitize(m.Stack) }
func (m *Leave) clean()       { m.Message, m.Stack = Sanitize(m.Message), Sanitize(m.Stack) }
func (m *Refusal) clean() {
	m.Error, m.Code = Truncate(Sanitize(m.Error), MaxText), Truncate(Sanitize(m.Code), MaxCode)
}

// Join asks to join a run.
type Join struct {
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

func (m *Join) Check() error {
	switch {
	case m.Protocol < 1:
		return errors.New("protocol is less than 1")
	case !IsName(m.Name):
		return errors.New("name is not a valid worker name")
	case !IsName(m.Kind):
		return errors.New("kind is not a valid launcher name")
	case len(m.Build) > maxBuild || !IsPrintable(m.Build):
		return errors.New("build is too long or not printable")
	case len(m.Arch) > MaxName || !IsPrintable(m.Arch):
		return errors.New("arch is too long or not printable")
	case len(m.Host) > 255 || !IsPrintable(m.Host):
		return errors.New("host is too long or not printable")
	case m.PID < 0:
		return errors.New("pid is negative")
	case m.Cores < 1 || m.Cores > MaxCores:
		return fmt.Errorf("cores is not within 1 to %d", MaxCores)
	case m.Slots < 1 || m.Slots > MaxSlots:
		return fmt.Errorf("slots is not within 1 to %d", MaxSlots)
	}
	return nil
}

// JoinAnswer is the answer to Join.
type JoinAnswer struct {
	Worker    int             `json:"worker"`
	Workers   int             `json:"workers"`
	Slots     int             `json:"slots"`
	Single    bool            `json:"single,omitempty"`
	MaxResult int64           `json:"max_result"`
	MaxValue  int64           `json:"max_value,omitempty"` // above 0: the worker leaves with a value
	Heartbeat int64           `json:"heartbeat_ms"`
	Silence   int64           `json:"silence_ms"`
	Poll      int64           `json:"poll_ms"`
	Job       json.RawMessage `json:"job"`
}

func (m *JoinAnswer) Check() error {
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
	case m.Slots < 1 || m.Slots > MaxSlots:
		return fmt.Errorf("slots is not within 1 to %d", MaxSlots)
	case m.MaxResult < 0:
		return errors.New("max_result is negative")
	case m.MaxValue < 0 || m.MaxValue > MaxValue:
		return fmt.Errorf("max_value is not within 0 to %d", MaxValue)
	}
	return nil
}

// LeaseRequest asks for blocks and lists the leases that the worker holds.
type LeaseRequest struct {
	Worker int      `json:"worker"`
	Want   int      `json:"want"`
	Held   []uint64 `json:"held"`
	Wait   int64    `json:"wait_ms"`
	Noted  uint64   `json:"noted"`
}

func (m *LeaseRequest) Check() error {
	switch {
	case m.Worker < 0:
		return errors.New("worker is missing or negative")
	case m.Want < 0 || m.Want > MaxLeases:
		return fmt.Errorf("want is not within 0 to %d", MaxLeases)
	case m.Held == nil:
		return errors.New("held is missing, expected a list")
	case len(m.Held) > MaxLeases:
		return fmt.Errorf("held has more than %d items", MaxLeases)
	case m.Wait < 0:
		return errors.New("wait_ms is negative")
	}
	return nil
}

// LeaseAnswer is the answer to LeaseRequest.
type LeaseAnswer struct {
	Leases []Grant         `json:"leases,omitempty"`
	Noted  uint64          `json:"noted,omitempty"`
	Note   json.RawMessage `json:"note,omitempty"`
	End    string          `json:"end,omitempty"`
}

// Grant is a lease in a LeaseAnswer.
type Grant struct {
	Lease   uint64          `json:"lease"`
	Block   int             `json:"block"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

func (m *LeaseAnswer) Check() error {
	if len(m.Leases) > MaxLeases {
		return fmt.Errorf("leases has more than %d items", MaxLeases)
	}
	for _, l := range m.Leases {
		if l.Lease == 0 || l.Block < 0 {
			return errors.New("a lease has the number 0, or its block is negative")
		}
	}
	return checkEnd(m.End)
}

// Values of End in answers: how a run has ended.
const (
	EndDone   = "done"
	EndFailed = "failed"
)

func checkEnd(end string) error {
	switch end {
	case "", EndDone, EndFailed:
		return nil
	}
	return errors.New(`end is neither "done" nor "failed"`)
}

// Heartbeat reports that the worker is alive.
type Heartbeat struct {
	Worker  int      `json:"worker"`
	Wait    int64    `json:"wait_ms"`
	Noted   uint64   `json:"noted"`
	Dropped []uint64 `json:"dropped,omitempty"`
}

func (m *Heartbeat) Check() error {
	switch {
	case len(m.Dropped) > MaxLeases:
		return fmt.Errorf("dropped has more than %d items", MaxLeases)
	case m.Worker < 0:
		return errors.New("worker is missing or negative")
	case m.Wait < 0:
		return errors.New("wait_ms is negative")
	}
	return nil
}

// HeartbeatAnswer is the answer to Heartbeat.
type HeartbeatAnswer struct {
	Superseded []uint64        `json:"superseded,omitempty"`
	Noted      uint64          `json:"noted,omitempty"`
	Note       json.RawMessage `json:"note,omitempty"`
	End        string          `json:"end,omitempty"`
}

func (m *HeartbeatAnswer) Check() error {
	if len(m.Superseded) > MaxLeases {
		return fmt.Errorf("superseded has more than %d items", MaxLeases)
	}
	return checkEnd(m.End)
}

// ErrorReport reports an error that ends the run.
type ErrorReport struct {
	Worker  int    `json:"worker"`
	Lease   uint64 `json:"lease"` // 0: the worker itself can't continue
	Block   int    `json:"block"` // -1 if Lease is 0
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
	Code    string `json:"code,omitempty"`
}

func (m *ErrorReport) Check() error {
	switch {
	case m.Worker < 0:
		return errors.New("worker is missing or negative")
	case (m.Lease == 0) != (m.Block == -1):
		return errors.New("exactly one of lease 0 and block -1 is given")
	case m.Block < -1:
		return errors.New("block is missing or less than -1")
	case m.Message == "":
		return errors.New("message is empty")
	case len(m.Code) > MaxCode || !IsPrintable(m.Code):
		return errors.New("code is too long or not printable")
	}
	return nil
}

// Leave reports that the worker leaves.
type Leave struct {
	Worker int `json:"worker"`
	// Error of closing the handler; "": none.
	Message string `json:"message,omitempty"`
	Stack   string `json:"stack,omitempty"`
	Code    string `json:"code,omitempty"`
	// Blocks is the number of blocks in Value: those that the worker has begun to compute. 0: there
	// is not a value.
	Blocks int    `json:"blocks,omitempty"`
	Value  []byte `json:"value,omitempty"`
}

func (m *Leave) Check() error {
	switch {
	case m.Worker < 0:
		return errors.New("worker is missing or negative")
	case m.Blocks < 0:
		return errors.New("blocks is negative")
	case m.Blocks == 0 && len(m.Value) > 0:
		return errors.New("value is given, but blocks is 0")
	case m.Blocks > 0 && m.Message != "":
		return errors.New("message and blocks exclude each other")
	case len(m.Value) > MaxValue:
		return fmt.Errorf("value has %d bytes, at most %d are allowed", len(m.Value), MaxValue)
	case m.Message == "" && (m.Stack != "" || m.Code != ""):
		return errors.New("message is empty, but stack or code is not")
	case len(m.Code) > MaxCode || !IsPrintable(m.Code):
		return errors.New("code is too long or not printable")
	}
	return nil
}

// MaxLeave returns the maximum size of a Leave with a value of up to maxValue bytes, which JSON
// encodes as base64.
func MaxLeave(maxValue int64) int64 { return MaxMessage + (maxValue+2)/3*4 }

// Refusal is the answer to a refused message.
type Refusal struct {
	Error string `json:"error"`
	Code  string `json:"code"`
}

func (m *Refusal) Check() error { return nil }

// Empty is an answer without fields.
type Empty struct{}

func (*Empty) Check() error { return nil }

// Encode encodes a message. Embedded JSON such as the job does not grow: "<" and the like are not
// escaped.
func Encode(m any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Message is a pointer to a message of type T.
type Message[T any] interface {
	*T
	Check() error
}

// Decode decodes one message: an object without unknown fields, and nothing after it.
func Decode[T any, P Message[T]](data []byte) (m T, err error) {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return m, errors.New("not a JSON object")
	}
	switch m := any(&m).(type) {
	case interface{ preset() }:
		m.preset()
	case *Join:
		// Another version may have other fields.
		var v struct {
			Protocol int `json:"protocol"`
		}
		if json.Unmarshal(data, &v) == nil && v.Protocol > 0 && v.Protocol != Version {
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
	if err := P(&m).Check(); err != nil {
		return m, err
	}
	if m, ok := any(&m).(interface{ clean() }); ok {
		m.clean()
	}
	return m, nil
}

// ResultHeader describes the body of a result.
type ResultHeader struct {
	Worker   int
	Lease    uint64
	Block    int
	Checksum uint32
}

// ParseResultHeader parses the header fields of a result.
func ParseResultHeader(h http.Header) (r ResultHeader, err error) {
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
	r.Worker = int(number(HeaderWorker, 10, 31))
	r.Lease = number(HeaderLease, 10, 64)
	r.Block = int(number(HeaderBlock, 10, 31))
	if v := h[HeaderChecksum]; err == nil && len(v) == 1 && len(v[0]) != 8 {
		return r, fmt.Errorf("header %s does not have 8 hexadecimal digits", HeaderChecksum)
	}
	r.Checksum = uint32(number(HeaderChecksum, 16, 32))
	return r, err
}

// ThisArch returns this program's GOOS/GOARCH.
func ThisArch() string { return runtime.GOOS + "/" + runtime.GOARCH }
