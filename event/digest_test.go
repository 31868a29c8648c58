package event_test

import (
	"bytes"
	"strings"
	"testing"

	"bridge/event"
	"bridge/source"
)

func TestDigestIsThatOfTheEvent(t *testing.T) {
	for name, rows := range map[string]*table{
		"a live row":       appRevision("0"),
		"a row marked":     appRevision("1"),
		"every kind":       everyKind().keyOfAll(),
		"bad values":       everyKindBad().keyOfAll(),
		"NULLs":            everyKindNull().keyOfAll(),
		"a row without it": newTable(cell{"id", source.Int, 0, "1"}),
	} {
		t.Run(name, func(t *testing.T) {
			row := rows.row(1)
			compareDigest(t, bind(t, options(), rows), row.Row, encode(t, options(), rows, row))
		})
	}
}

func TestDigestOfAReleaseIsNeverDeleted(t *testing.T) {
	rows := releaseHistory()
	seen, err := bind(t, releaseOptions(), rows).Digest(rows.row(1).Row)
	if err != nil || seen.Deleted {
		t.Errorf("got %+v, %v", seen, err)
	}
}

func TestDigestNeedsNoTimeAndNoGoodValues(t *testing.T) {
	o := options()
	o.BadValue = event.StopOnBad
	rows := everyKindBad()
	if _, err := bind(t, o, rows).Digest(rows.row(1).Row); err != nil {
		t.Error(err)
	}
}

func TestDigestRefusesAnotherShape(t *testing.T) {
	rows := appRevision("0")
	unbound, err := event.NewEncoder(options())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unbound.Digest(rows.row(1).Row); err == nil {
		t.Error("it looks before Bind")
	}
	if _, err := bind(t, options(), rows).Digest(source.Row{ID: 1}); err == nil {
		t.Error("it looks at a row without values")
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
