package event_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

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
	return a.ID == b.ID && a.UUID == b.UUID && a.Type == b.Type && a.Version == b.Version && a.Schema == b.Schema && a.Op == b.Op && a.Reason == b.Reason &&
		bytes.Equal(a.Key, b.Key) && a.Time.Equal(b.Time) && a.FromClock == b.FromClock && a.BadValues == b.BadValues && a.Digest == b.Digest
}

func TestAnEmptyKeyIsNoSubject(t *testing.T) {
	o := options()
	o.Format = event.FormatCloudEvents
	rows := newTable(cell{"id", source.Int, 0, "1"}, cell{"name", source.Text, 0, ""}).key("name")
	if ev := encode(t, o, rows, rows.row(1)); bytes.Contains(ev.Body, []byte("subject")) {
		t.Errorf("%s", ev.Body)
	}
}
