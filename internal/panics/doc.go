// Package panics confines a panic to the stream in which it happened.
//
// [Guard] stands where a goroutine of one stream starts. What is shared by all streams (a sink's
// connections, the store) is not guarded: after a panic there nobody knows what it holds, and the
// end of the process is safe.
package panics
