// Package protocol defines the messages between a coordinator and its workers
// (docs/format/worker.md): types, bounds, encoding and decoding. Both sides decode with [Decode],
// which rejects unknown fields and values out of range, and replaces control characters in texts
// from the other side.
package protocol
