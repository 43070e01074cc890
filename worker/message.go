package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"time"
)

// The protocol: docs/format/worker.md.
const protocol = 1

const (
	pathJoin      = "/v1/join"
	pathLease     = "/v1/lease"
	pathResult    = "/v1/result"
	pathError     = "/v1/error"
	pathHeartbeat = "/v1/heartbeat"
	pathLeave     = "/v1/leave"
)

// Headers of a result.
const (
	headerWorker   = "Leat-Worker"
	headerLease    = "Leat-Lease"
	headerBlock    = "Leat-Block"
	headerChecksum = "Leat-Crc32c"
)

// Bounds of messages.
const (
	maxMessage  = 64 << 10 // JSON that a worker sends
	maxHeader   = 8 << 10
	maxBuild    = 256
	maxText     = 4 << 10  // of an error
	maxStack    = 24 << 10 // of an error
	maxCode     = 64
	maxCores    = 1 << 16
	maxJobBytes = 256 << 20 // of the job description
	maxAnswer   = 32 << 20  // that a worker takes for leases, whose payloads are less than two of the largest, and a note
	maxPayload  = 8 << 20   // of a block
	maxNote     = 1 << 20
	maxLeases   = maxSlots + 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// otherProtocol is about a worker of another version.
type otherProtocol struct{ version int }

func (e *otherProtocol) Error() string { return e.refused().text }

func (e *otherProtocol) refused() *refused {
	return refuse(http.StatusForbidden, "build", "the worker speaks version %d of the protocol, the run version %d", e.version, protocol)
}

// Numbers that must be told are preset to what none can be.
func (m *joinAnswer) preset()       { m.Worker = -1 }
func (m *leaseMessage) preset()     { m.Worker = -1 }
func (m *heartbeatMessage) preset() { m.Worker = -1 }
func (m *errorMessage) preset()     { m.Worker, m.Block = -1, -2 }
func (m *leaveMessage) preset()     { m.Worker = -1 }

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
		return errors.New("name is not a worker's name")
	case !isName(m.Kind):
		return errors.New("kind is not the name of a kind")
	case len(m.Build) > maxBuild || !printable(m.Build):
		return errors.New("build is too long, or can't be shown")
	case len(m.Arch) > maxName || !printable(m.Arch):
		return errors.New("arch is too long, or can't be shown")
	case len(m.Host) > 255 || !printable(m.Host):
		return errors.New("host is too long, or can't be shown")
	case m.PID < 0:
		return errors.New("pid is less than 0")
	case m.Cores < 1 || m.Cores > maxCores:
		return fmt.Errorf("cores are not 1 to %d", maxCores)
	case m.Slots < 1 || m.Slots > maxSlots:
		return fmt.Errorf("slots are not 1 to %d", maxSlots)
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
			return errors.New("a time is not 1 ms to a day")
		}
	}
	switch {
	case m.Worker < 0:
		return errors.New("worker is missing, or less than 0")
	case m.Workers < 0:
		return errors.New("workers are less than 0")
	case m.Slots < 1 || m.Slots > maxSlots:
		return fmt.Errorf("slots are not 1 to %d", maxSlots)
	case m.MaxResult < 0:
		return errors.New("max_result is less than 0")
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
		return errors.New("worker is missing, or less than 0")
	case m.Want < 0 || m.Want > maxLeases:
		return fmt.Errorf("want is not 0 to %d", maxLeases)
	case m.Held == nil:
		return errors.New("held is missing: without any lease it is []")
	case len(m.Held) > maxLeases:
		return fmt.Errorf("held are more than %d", maxLeases)
	case m.Wait < 0:
		return errors.New("wait_ms is less than 0")
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
		return fmt.Errorf("leases are more than %d", maxLeases)
	}
	for _, l := range m.Leases {
		if l.Lease == 0 || l.Block < 0 {
			return errors.New("a lease has the number 0, or its block is less than 0")
		}
	}
	return checkEnd(m.End)
}

// How a run has ended, as workers are told.
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
		return fmt.Errorf("dropped are more than %d", maxLeases)
	case m.Worker < 0:
		return errors.New("worker is missing, or less than 0")
	case m.Wait < 0:
		return errors.New("wait_ms is less than 0")
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
		return fmt.Errorf("superseded are more than %d", maxLeases)
	}
	return checkEnd(m.End)
}

type errorMessage struct {
	Worker  int    `json:"worker"`
	Lease   uint64 `json:"lease"` // 0: the worker itself can't go on
	Block   int    `json:"block"` // -1 then
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
	Code    string `json:"code,omitempty"`
}

func (m *errorMessage) check() error {
	switch {
	case m.Worker < 0:
		return errors.New("worker is missing, or less than 0")
	case (m.Lease == 0) != (m.Block == -1):
		return errors.New("lease is 0, or block is -1, but not both")
	case m.Block < -1:
		return errors.New("block is missing, or less than -1")
	case m.Message == "":
		return errors.New("message is empty")
	case len(m.Code) > maxCode || !printable(m.Code):
		return errors.New("code is too long, or can't be shown")
	}
	m.Message, m.Stack = shown(m.Message), shown(m.Stack)
	return nil
}

type leaveMessage struct {
	Worker int `json:"worker"`
	// What went wrong when the worker closed what it had; "": nothing.
	Message string `json:"message,omitempty"`
	Stack   string `json:"stack,omitempty"`
	Code    string `json:"code,omitempty"`
}

func (m *leaveMessage) check() error {
	switch {
	case m.Worker < 0:
		return errors.New("worker is missing, or less than 0")
	case m.Message == "" && (m.Stack != "" || m.Code != ""):
		return errors.New("message is empty, and stack or code is not")
	case len(m.Code) > maxCode || !printable(m.Code):
		return errors.New("code is too long, or can't be shown")
	}
	m.Message, m.Stack = shown(m.Message), shown(m.Stack)
	return nil
}

// refusal is the answer to a message that was refused.
type refusal struct {
	Error string `json:"error"`
	Code  string `json:"code"`
}

func (m *refusal) check() error {
	m.Error, m.Code = cut(shown(m.Error), maxText), cut(shown(m.Code), maxCode)
	return nil
}

// encode writes a message. What stands in JSON within it, as the job does, is no larger there than by itself: its "<" and the like are not escaped.
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

// decode reads one message: an object with no other fields than the message has, and nothing after it.
func decode[T any, P checker[T]](data []byte) (m T, err error) {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return m, errors.New("it is not a JSON object")
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
			err = &otherProtocol{v.Protocol}
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
		return m, errors.New("the message goes on after its end")
	}
	return m, P(&m).check()
}

// resultHeader says what the body of a result is.
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
			err = fmt.Errorf("the header %s is not there once", name)
			return 0
		}
		if n, err = strconv.ParseUint(v[0], base, bits); err != nil {
			err = fmt.Errorf("the header %s is not a number as it should be", name)
		}
		return n
	}
	r.worker = int(number(headerWorker, 10, 31))
	r.lease = number(headerLease, 10, 64)
	r.block = int(number(headerBlock, 10, 31))
	if v := h[headerChecksum]; err == nil && len(v) == 1 && len(v[0]) != 8 {
		return r, fmt.Errorf("the header %s does not have 8 hexadecimal digits", headerChecksum)
	}
	r.checksum = uint32(number(headerChecksum, 16, 32))
	return r, err
}

// milliseconds of a wait that a worker asks for, at most longest.
func milliseconds(ms int64, longest time.Duration) time.Duration {
	return time.Duration(min(ms, int64(longest/time.Millisecond))) * time.Millisecond
}
