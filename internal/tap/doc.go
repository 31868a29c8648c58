// Package tap shows events to those who listen, as the bus acknowledges them.
//
// A publisher offers each batch to a [Tap]. Where nobody listens that costs one atomic load. A
// [Listener] has a bounded buffer: what it has no room for is counted and left out, and the
// publisher never waits. Events are as they were published, masked values too.
package tap
