// Package protocol has the messages between a coordinator and its workers, as docs/format/worker.md
// describes them: types, bounds, encoding and decoding. Both sides decode with [Decode], which
// rejects unknown fields, values out of range and unsafe texts.
package protocol
