// Package stage brings objects to local disk before they are asked for, once per machine.
//
// A [Pool] has workers that copy objects of any [objstore.Source] into a directory on a local disk. [Pool.Prefetch] asks for one and never waits; it gives a
// [Lazy], which waits for the copy when it is opened, or reads the object directly where that is quicker. All pools of all processes that name the same directory
// share what is in it: an object is copied once however many ask, the room that they take together stays within limits, and what nobody uses
// stays until room is needed.
//
// What a pool serves is never older than the pool itself: what was staged earlier is compared with its source once, see [Options.MaxAge].
//
// A process may be killed at any moment. Its copies under way vanish, its room and its pins are given back by whoever comes next, and no torn object
// is ever served. What was staged before the machine was restarted is verified by its checksum before it is served again.
//
// It does not work over network file systems, needs Linux, and flushes nothing: it is a cache, and the source has the truth.
//
// It takes after the FileStoreCachePool of Megatron-Energon.
package stage
