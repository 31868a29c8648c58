package texts_test

import (
	"bytes"
	"strconv"
	"testing"

	"example.org/bridge/internal/texts"
)

func TestTextsStayAsTheyAre(t *testing.T) {
	var of texts.Texts
	var got, want []string
	buf := make([]byte, 0, 20)
	for i := range 5000 {
		buf = strconv.AppendInt(buf[:0], int64(i)<<(i%50), 10)
		got, want = append(got, of.Of(buf)), append(want, string(buf))
	}
	long := bytes.Repeat([]byte("x"), 100_000)
	got, want = append(got, of.Of(long), of.Of(nil), of.Of([]byte("behind"))), append(want, string(long), "", "behind")
	clear(long)
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("text %d is %.40q, want %.40q", i, got[i], want[i])
		}
	}
}

func TestManyTextsAreOneAllocation(t *testing.T) {
	var of texts.Texts
	id := []byte("387ab998-0f04-4ea2-9706-851a3360596f")
	if n := testing.AllocsPerRun(100, func() {
		for range 1000 {
			of.Of(id)
		}
	}); n > 10 {
		t.Errorf("%v allocations for a thousand texts of 36 bytes, want at most 10", n)
	}
}
