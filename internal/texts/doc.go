// Package texts makes strings of bytes with an allocation for many of them.
//
// Each message has an id and the number of its row as strings that outlive the buffer which they
// were written to. To allocate each of them costs more than to write it.
package texts
