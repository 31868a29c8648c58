// Package app wires bridge together. No other package opens source, sink and checkpoint for a run,
// or makes shards, reconcilers and the HTTP server.
//
// [Open] makes an [App] from a configuration and Run runs it: for the daemon, for the demo and for
// tests. [RunInside] runs one inside a command that has found none to ask. The other functions open
// single parts for commands that only read.
package app
