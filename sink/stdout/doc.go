// Package stdout prints events to a writer, one a line, for a look at what would be published and
// for pipes.
//
// # Guarantees
//
// A batch is written in one piece and in its order; batches of concurrent calls do not mix. A
// message is acknowledged when the writer has taken the whole of its line: that is no more durable
// than the writer. Only the event is printed, without destination, key and headers. A line break
// between the tokens of an event is printed as a space.
//
// A full disk is waited for, and writing goes on at the byte where it ended. Any other error of the
// writer is final, a reader that has closed its end of the pipe first of all: this and every
// further Publish returns it.
package stdout
