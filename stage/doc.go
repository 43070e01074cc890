// Package stage copies objects to a local disk before they are needed, once per machine.
//
// The workers of a [Pool] copy objects of any [objstore.Source] into a directory on a local disk.
// [Pool.Prefetch] requests an object and never waits. It returns a [Ref], whose Open waits for the
// copy, or reads the object directly where that is faster. All pools of all processes that open the
// same directory share its objects: each object is copied once, all of them together stay within
// the limits, and unused objects stay until the space is needed.
//
// A pool never serves a version that was replaced before the pool was opened: it compares objects
// that were staged earlier with their source once. [Options.MaxAge] relaxes this.
//
// A process may be killed at any time. Its copies in progress vanish, the next process releases its
// space and pins, and no incomplete object is ever served. After a reboot an object's checksum is
// verified before the object is served again.
//
// The package needs Linux, does not work on network file systems, and does not flush: the directory
// is a cache, and the source is authoritative.
//
// The idea comes from the FileStoreCachePool of Megatron-Energon.
package stage
