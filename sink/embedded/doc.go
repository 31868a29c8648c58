// Package embedded is a NATS server with JetStream inside this process, as the bus of small
// installations, demos and tests.
//
// # Use
//
// [Open] starts the server and, on a connection that does not leave the process, the sink that its
// caller makes; closing the [Sink] ends both. Nobody else reaches the server unless Options.Listen
// names an address: then every process that can connect to it may read and write without a login,
// so it should be a loopback address.
//
// # Guarantees
//
// Files are synced before a message is acknowledged (sync_interval: always): what is acknowledged
// outlives a crash of the process and of the host. A folder belongs to one process at a time, held
// by a lock on the file "lock" in it; the system drops the lock of a process that was killed.
//
// # Faults
//
// Open returns an error for a folder that is in use, that cannot be written or whose disk is full,
// and for an address that is taken. When the disk is full later on the server gives up the stream,
// or switches JetStream off; [Sink] looks every two seconds whether there is room again and then
// restarts JetStream. Meanwhile publishing waits, and Ready says so.
package embedded
