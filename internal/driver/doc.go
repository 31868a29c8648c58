// Package driver has what bridge knows of a kind of bus or database before it is opened: its URL,
// its variables, what it can do, and how it is opened.
//
// # Terms
//
// A [Bus] is the driver of a kind of bus, a [Database] that of a kind of database. Both are made
// for one configuration: Load checks what the environment says and keeps it, and all other methods
// use what it has found.
//
// # Adding a driver
//
// Write a type that implements [Bus] or [Database], and add it to the lists in
// internal/config/config.go. What a bus can do beyond being published to are interfaces of its
// own: [Readable], [Shared], [Inspector].
package driver
