package protocol

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// decoders decode the messages of both sides. Each encodes the decoded message and decodes it
// again.
var decoders = map[string]func([]byte) (any, error){
	PathJoin:                  decodeAny[Join],
	PathLease:                 decodeAny[LeaseRequest],
	PathHeartbeat:             decodeAny[Heartbeat],
	PathError:                 decodeAny[ErrorReport],
	PathLeave:                 decodeAny[Leave],
	PathJoin + " answer":      decodeAny[JoinAnswer],
	PathLease + " answer":     decodeAny[LeaseAnswer],
	PathHeartbeat + " answer": decodeAny[HeartbeatAnswer],
	"refusal":                 decodeAny[Refusal],
	"empty":                   decodeAny[Empty],
}

func decodeAny[T any, P Message[T]](b []byte) (any, error) { return Decode[T, P](b) }

func FuzzMessages(f *testing.F) {
	for _, s := range []string{
		`{"protocol":1,"name":"slurm-3","kind":"slurm","build":"go:a/b","arch":"linux/amd64","host":"n1","pid":7,"cores":8,"slots":8}`,
		`{"worker":0,"want":2,"held":[1,2],"wait_ms":20000,"noted":1}`,
		`{"worker":0,"wait_ms":2000,"noted":0,"dropped":[7]}`,
		`{"worker":0,"lease":3,"block":2,"message":"no","stack":"a\nb","code":"c"}`,
		`{"worker":0,"lease":0,"block":-1,"message":"no"}`,
		`{"worker":0,"blocks":3,"value":"AAH/"}`, `{"worker":0,"blocks":1}`, `{"worker":0,"value":"AA=="}`,
		`{"worker":0,"blocks":-1}`, `{"worker":0,"blocks":1,"value":"?"}`, `{"worker":0,"blocks":1,"message":"no"}`,
		`{"worker":3,"workers":4,"slots":2,"single":true,"max_result":100,"heartbeat_ms":2000,"silence_ms":10000,"poll_ms":20000,"job":{"a":[1]}}`,
		`{"worker":3,"workers":4,"slots":2,"max_result":100,"max_value":7,"heartbeat_ms":2000,"silence_ms":10000,"poll_ms":20000,"job":null}`,
		`{"leases":[{"lease":1,"block":0,"payload":{}}],"noted":2,"note":"n","end":"done"}`,
		`{"superseded":[1],"end":"failed"}`,
		`{"error":"no","code":"lost"}`, `{}`, `{}{}`, `null`, `[]`, `{"worker":1e99}`, `{"held":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, decode := range decoders {
			m, err := decode(data)
			if err != nil {
				continue
			}
			b, err := json.Marshal(m)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			again, err := decode(b)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, b, err)
			}
			if c, _ := json.Marshal(again); !bytes.Equal(b, c) {
				t.Fatalf("%s: %s, then %s", name, b, c)
			}
			switch m := m.(type) {
			case Join:
				if !IsName(m.Name) || !IsPrintable(m.Host) || m.Slots < 1 || m.Slots > MaxSlots {
					t.Fatalf("%+v", m)
				}
			case ErrorReport:
				if strings.ContainsAny(m.Message+m.Stack, "\x1b\x00\x07\r") || !utf8.ValidString(m.Message+m.Stack) {
					t.Fatalf("%+v", m)
				}
			case Leave:
				if m.Blocks < 0 || len(m.Value) > MaxValue || m.Blocks == 0 && len(m.Value) > 0 ||
					m.Blocks > 0 && m.Message != "" {
					t.Fatalf("%+v", m)
				}
				if size := int64(len(b)); len(m.Message)+len(m.Stack) == 0 && size > MaxLeave(int64(len(m.Value))) {
					t.Fatalf("%d bytes for a value of %d", size, len(m.Value))
				}
			case JoinAnswer:
				if m.MaxValue < 0 || m.MaxValue > MaxValue {
					t.Fatalf("%+v", m)
				}
			case LeaseRequest:
				if m.Want < 0 || m.Want > MaxLeases || len(m.Held) > MaxLeases || m.Wait < 0 {
					t.Fatalf("%+v", m)
				}
			}
		}
	})
}

func FuzzResultHeader(f *testing.F) {
	f.Add("Leat-Worker: 1\r\nLeat-Lease: 2\r\nLeat-Block: 3\r\nLeat-Crc32c: 00ff00ff\r\n")
	f.Add("Leat-Worker: 1\r\nLeat-Worker: 1\r\nLeat-Lease: +2\r\nLeat-Block: -3\r\nLeat-Crc32c: 0x1\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST /v1/result HTTP/1.1\r\nHost: leat\r\n" + s +
			"\r\n")))
		if err != nil {
			return
		}
		h, err := ParseResultHeader(r.Header)
		if err == nil && (h.Worker < 0 || h.Block < 0) {
			t.Fatalf("%+v", h)
		}
	})
}
