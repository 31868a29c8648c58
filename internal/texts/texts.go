package texts

import "strings"

// firstBytes and sharedBytes are the size of the memory that strings share, of the first ones and
// later: who keeps one keeps so much.
const (
	firstBytes  = 128
	sharedBytes = 4 << 10
)

// Texts makes strings that share memory, most often 4 KiB; the first ones share less. It serves one
// goroutine; the zero value is ready; it must not be copied.
type Texts struct {
	b strings.Builder
}

// Of returns text as a string that stays as it is.
func (t *Texts) Of(text []byte) string {
	if t.b.Cap()-t.b.Len() < len(text) {
		// The strings before keep the memory that they are in.
		size := min(max(firstBytes, 2*t.b.Cap()), sharedBytes)
		t.b.Reset()
		t.b.Grow(max(size, len(text)))
	}
	start := t.b.Len()
	t.b.Write(text)
	return t.b.String()[start:]
}
