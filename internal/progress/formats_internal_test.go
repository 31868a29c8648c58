package progress

import (
	"errors"
	"math"
	"testing"
)

func FuzzHead(f *testing.F) {
	f.Add(head{rebuild: true, epoch: 1_760_000_000_000, seq: 7}.appendTo(nil))
	f.Add(head{trust: true, epoch: math.MaxUint64, seq: math.MaxUint64}.appendTo(nil))
	f.Add([]byte{1, 0, 0x80, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHead(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		if string(h.appendTo(nil)) != string(b) {
			t.Fatalf("%x has another form", b)
		}
	})
}
