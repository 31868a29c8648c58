package form_test

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"example.org/bridge/internal/form"
)

// TestForm reads what was written, and nothing that was cut off, prolonged or changed.
func TestForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, i, text := rapid.Uint64().Draw(t, "n"), rapid.Int64().Draw(t, "i"), rapid.String().Draw(t, "text")
		plain := form.AppendText(binary.AppendVarint(form.AppendUints(nil, n, 2), i), text)
		read := func(r form.Reader) (same bool, err error) {
			same = r.Uint() == n && r.Count() == 2 && r.Int() == i && r.Text() == text
			return same, r.End()
		}
		sealed := form.Seal(append([]byte{7}, plain...))
		for _, r := range []form.Reader{{Rest: plain}, form.Open(sealed, 7)} {
			if same, err := read(r); !same || err != nil {
				t.Fatalf("%x is not read back: %v", r.Rest, err)
			}
		}
		cut := rapid.IntRange(0, len(plain)-1).Draw(t, "cut")
		damaged := append([]byte(nil), sealed...)
		damaged[rapid.IntRange(0, len(sealed)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		for what, r := range map[string]form.Reader{
			"cut off": {Rest: plain[:cut]}, "a byte too many": {Rest: append(plain[:len(plain):len(plain)], 0)}, "a flipped bit": form.Open(damaged, 7),
			"another version": form.Open(sealed, 6), "no seal": form.Open(sealed[:form.SealBytes], 7),
		} {
			if _, err := read(r); err == nil {
				t.Errorf("%s: no error", what)
			}
		}
	})
}
