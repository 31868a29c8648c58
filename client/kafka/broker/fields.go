package broker

import "encoding/binary"

// fields reads the fields of a record or an answer. After a failure it reads on without effect.
type fields struct {
	rest []byte
	bad  bool
}

// Ok reports whether all fields were there.
func (f *fields) Ok() bool { return !f.bad }

// Span returns the next n bytes.
func (f *fields) Span(n int) []byte {
	if n < 0 || n > len(f.rest) {
		f.rest, f.bad = nil, true
		return nil
	}
	b := f.rest[:n:n]
	f.rest = f.rest[n:]
	return b
}

// Uvarint reads a number without a sign.
func (f *fields) Uvarint() uint32 {
	v, n := binary.Uvarint(f.rest)
	if f.Span(max(n, -1)); n == 0 || v>>32 != 0 {
		f.rest, f.bad = nil, true
		return 0
	}
	return uint32(v)
}

// varlong reads a number of 64 bits.
func (f *fields) varlong() int64 {
	v, n := binary.Varint(f.rest)
	if f.Span(max(n, -1)); n == 0 {
		f.rest, f.bad = nil, true
	}
	return v
}

// varint reads a number of 32 bits.
func (f *fields) varint() int {
	v := f.varlong()
	if v != int64(int32(v)) {
		f.rest, f.bad = nil, true
		return 0
	}
	return int(v)
}

// bytes reads bytes behind their length, nil for -1.
func (f *fields) bytes() []byte {
	n := f.varint()
	if n < 0 {
		return nil
	}
	return f.Span(n)
}
