package event_test

import (
	"bytes"
	"strings"
	"testing"

	"bridge/event"
	"bridge/source"
)

func TestDigestNeedsNoTimeAndNoGoodValues(t *testing.T) {
	o := options()
	o.BadValue = event.StopOnBad
	rows := everyKindBad()
	if _, err := bind(t, o, rows).Digest(rows.row(1).Row); err != nil {
		t.Error(err)
	}
}

func TestDigestKeepsNoHugeKey(t *testing.T) {
	huge := newTable(cell{"id", source.Int, 0, "1"}, cell{"k", source.Text, 0, strings.Repeat("x", 3<<20)}).key("k")
	encoder := bind(t, options(), huge)
	row := huge.row(1)
	want := huge.values[1]
	for range 2 {
		seen, err := encoder.Digest(row.Row)
		if err != nil || !bytes.Equal(seen.Key, want) {
			t.Fatalf("a key of %d bytes, want %d; %v", len(seen.Key), len(want), err)
		}
	}
	row.Values[1] = []byte("small")
	if _, err := encoder.Digest(row.Row); err != nil {
		t.Fatal(err)
	}
	if seen, err := encoder.Digest(row.Row); err != nil || cap(seen.Key) > 1<<20 {
		t.Errorf("%d bytes are kept; %v", cap(seen.Key), err)
	}
}
