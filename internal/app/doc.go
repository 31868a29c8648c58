// Package app is the wiring of bridge: the only package that opens source, sink and checkpoint and
// builds shards, reconciles and the HTTP server of them.
//
// [Open] makes an [App] of a configuration and Run runs it: for the daemon, for the demo and for
// tests. [Alone] does once, without a running bridge, what a running one is asked for. The other
// functions open single parts for commands that look and change nothing.
package app
