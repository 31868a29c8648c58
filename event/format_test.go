package event_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bridge/event"
	"bridge/source"
)

// otherFormats are the formats besides that of the golden files of events.
var otherFormats = []event.Format{event.FormatCloudEvents, event.FormatRow}

// TestGoldenFormats fixes the bytes of a golden event in each other format, and that it stays the
// same event.
func TestGoldenFormats(t *testing.T) {
	for _, g := range goldens() {
		for _, format := range otherFormats {
			t.Run(g.name+" as "+string(format), func(t *testing.T) {
				want := g.event(t)
				g := g
				g.options.Format = format
				got := g.event(t)
				body := append(bytes.Clone(got.Body), '\n')
				if got.Body, want.Body = nil, nil; !equalEvents(&got, &want) {
					t.Errorf("the event is %+v, as an Eiffel document %+v", got, want)
				}
				file := filepath.Join("testdata", string(format), g.name+".golden.json")
				if *update {
					if err := os.WriteFile(file, body, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				fixed, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(body, fixed) {
					t.Errorf("got  %swant %s", body, fixed)
				}
			})
		}
	}
}

// TestTheFormOfFormerVersions: what they have published is made again, byte for byte, with the same
// id. The files are not written again.
func TestTheFormOfFormerVersions(t *testing.T) {
	for _, g := range goldens() {
		t.Run(g.name, func(t *testing.T) {
			fixed, err := os.ReadFile(filepath.Join("testdata", "former", g.name+".golden.json"))
			if err != nil {
				t.Fatal(err)
			}
			want := g.event(t)
			g.former = true
			got := g.event(t)
			if !bytes.Equal(append(bytes.Clone(got.Body), '\n'), fixed) {
				t.Errorf("got  %s\nwant %s", got.Body, fixed)
			}
			if got.Body, want.Body = nil, nil; !equalEvents(&got, &want) {
				t.Errorf("the event is %+v, in the form of now %+v", got, want)
			}
		})
	}
}

// equalEvents compares what does not depend on the format.
func equalEvents(a, b *event.Event) bool {
	return a.ID == b.ID && a.UUID == b.UUID && a.Type == b.Type && a.Version == b.Version && a.Schema == b.Schema && a.Op == b.Op &&
		bytes.Equal(a.Key, b.Key) && a.Time.Equal(b.Time) && a.FromClock == b.FromClock && a.BadValues == b.BadValues && a.Digest == b.Digest
}

// A CloudEvent holds the document byte for byte, and its attributes say what that says.
func TestTheDataOfACloudEventIsTheDocument(t *testing.T) {
	for _, g := range goldens() {
		document := g.event(t)
		g.options.Format = event.FormatCloudEvents
		var cloud struct {
			SpecVersion, ID, Source, Type, Subject, DataContentType string
			Time                                                    time.Time
			Data                                                    json.RawMessage
		}
		ev := g.event(t)
		if err := json.Unmarshal(ev.Body, &cloud); err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
		if !bytes.Equal(cloud.Data, document.Body) {
			t.Errorf("%s: its data is %s, want %s", g.name, cloud.Data, document.Body)
		}
		meta := parse(t, document.Body).Meta
		source := string(event.AppendURI(nil, meta.Source.DomainID, g.options.Stream))
		if cloud.SpecVersion != "1.0" || cloud.ID != meta.ID || cloud.Source != source || cloud.Type != meta.Type ||
			cloud.Subject != string(ev.Key) || cloud.DataContentType != "application/json" || cloud.Time.UnixMilli() != meta.Time {
			t.Errorf("%s: %+v, the document has %+v", g.name, cloud, meta)
		}
	}
}

// A row has the members of the columns, with the same values, and nothing else.
func TestARowHasTheMembersAlone(t *testing.T) {
	for _, g := range goldens() {
		var document struct{ Data map[string]json.RawMessage }
		if err := json.Unmarshal(g.event(t).Body, &document); err != nil {
			t.Fatal(err)
		}
		g.options.Format = event.FormatRow
		ev := g.event(t)
		var row map[string]json.RawMessage
		if err := json.Unmarshal(ev.Body, &row); err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
		want, reason := document.Data, ""
		_ = json.Unmarshal(want["reason"], &reason)
		delete(want, "row")
		delete(want, "reason")
		if len(row) != len(want) || ev.Reason != reason {
			t.Errorf("%s: %d members and the reason %q, want %d and %q", g.name, len(row), ev.Reason, len(want), reason)
		}
		for name, value := range want {
			if !bytes.Equal(row[name], value) {
				t.Errorf("%s: %s is %s, want %s", g.name, name, row[name], value)
			}
		}
	}
}

func TestAnEmptyKeyIsNoSubject(t *testing.T) {
	o := options()
	o.Format = event.FormatCloudEvents
	rows := newTable(cell{"id", source.Int, 0, "1"}, cell{"name", source.Text, 0, ""}).key("name")
	if ev := encode(t, o, rows, rows.row(1)); bytes.Contains(ev.Body, []byte("subject")) {
		t.Errorf("%s", ev.Body)
	}
}

func TestOtherFormatsAllocateAsMuchAsDocuments(t *testing.T) {
	table := stpCapability("64", "N")
	count := func(format event.Format) float64 {
		o := stpOptions()
		o.Format = format
		encoder, row, buf := bind(t, o, table), table.row(8), make([]byte, 0, 1<<20)
		return testing.AllocsPerRun(100, func() { _, _, _ = encoder.Append(buf, row) })
	}
	most := count(event.FormatEiffel)
	for _, format := range otherFormats {
		if got := count(format); got > most {
			t.Errorf("%s: %v allocations a row, %v as a document", format, got, most)
		}
	}
}
