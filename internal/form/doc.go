// Package form writes and reads the bytes of values that are saved: numbers as varints of
// encoding/binary, texts with their length before them. A value that nobody else checks is sealed:
// its version comes first, a byte, and last the CRC-32C over all before, 4 bytes, little endian.
package form
