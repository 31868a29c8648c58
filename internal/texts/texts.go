package texts

import "unsafe"

// firstBytes and sharedBytes are the size of the memory that strings share, of the first ones and
// later: who keeps one keeps so much.
const (
	firstBytes  = 128
	sharedBytes = 4 << 10
)

// Texts makes strings that share memory, most often 4 KiB; the first ones share less. It serves one
// goroutine; the zero value is ready; it must not be copied.
type Texts struct {
	// b is only appended to: strings lie in it.
	b []byte
}

// Of returns text as a string that stays as it is until Reset.
func (t *Texts) Of(text []byte) string {
	if cap(t.b)-len(t.b) < len(text) {
		// The strings before keep the memory that they are in.
		size := min(max(firstBytes, 2*cap(t.b)), sharedBytes)
		t.b = make([]byte, 0, max(size, len(text)))
	}
	start := len(t.b)
	t.b = append(t.b, text...)
	return unsafe.String(unsafe.SliceData(t.b[start:]), len(text))
}

// Reset uses the memory again: strings from before must not be used any more.
func (t *Texts) Reset() { t.b = t.b[:0] }
