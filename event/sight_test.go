package event_test

import (
	"bytes"
	"strings"
	"testing"

	"bridge/event"
	"bridge/source"
)

func TestASightIsThatOfTheEvent(t *testing.T) {
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
			compareSight(t, bind(t, options(), rows), row.Record, encode(t, options(), rows, row))
		})
	}
}

func TestASightOfAReleaseIsNeverDeleted(t *testing.T) {
	rows := releaseHistory()
	seen, err := bind(t, releaseOptions(), rows).Sight(rows.row(1).Record)
	if err != nil || seen.Deleted {
		t.Errorf("got %+v, %v", seen, err)
	}
}

func TestASightNeedsNoTimeAndNoGoodValues(t *testing.T) {
	o := options()
	o.BadValue = event.StopOnBad
	rows := everyKindBad()
	if _, err := bind(t, o, rows).Sight(rows.row(1).Record); err != nil {
		t.Error(err)
	}
}

func TestSightRefusesAnotherShape(t *testing.T) {
	rows := appRevision("0")
	unbound, err := event.NewEncoder(options())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unbound.Sight(rows.row(1).Record); err == nil {
		t.Error("it looks before Bind")
	}
	if _, err := bind(t, options(), rows).Sight(source.Record{ID: 1}); err == nil {
		t.Error("it looks at a row without values")
	}
}

func TestASightKeepsNoHugeEntity(t *testing.T) {
	huge := newTable(cell{"id", source.Int, 0, "1"}, cell{"k", source.Text, 0, strings.Repeat("x", 3<<20)}).key("k")
	encoder := bind(t, options(), huge)
	row := huge.row(1)
	want := referenceEntity(&huge.columns, huge.values)
	for range 2 {
		seen, err := encoder.Sight(row.Record)
		if err != nil || !bytes.Equal(seen.Entity, want) {
			t.Fatalf("an entity of %d bytes, want %d; %v", len(seen.Entity), len(want), err)
		}
	}
	row.Values[1] = []byte("small")
	if _, err := encoder.Sight(row.Record); err != nil {
		t.Fatal(err)
	}
	if seen, err := encoder.Sight(row.Record); err != nil || cap(seen.Entity) > 1<<20 {
		t.Errorf("%d bytes are kept; %v", cap(seen.Entity), err)
	}
}
