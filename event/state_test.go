package event_test

import (
	"fmt"
	"testing"

	"bridge/event"
	"bridge/source"

	"pgregory.net/rapid"
)

func stateOf(t *testing.T, o event.Options, rows *table) [16]byte {
	t.Helper()
	return encode(t, o, rows, rows.row(1)).Digest
}

func TestTheStateDoesNotKnowTheOrderOfColumnsOrNULLs(t *testing.T) {
	names := rapid.StringMatching(`[a-z]{1,3}_[0-9]`)
	rapid.Check(t, func(r *rapid.T) {
		cells := []cell{{"id", source.Int, 0, "1"}}
		for _, name := range rapid.SliceOfNDistinct(names, 1, 8, rapid.ID).Draw(r, "names") {
			c := cell{name, source.Text, 0, rapid.String().Draw(r, "value")}
			if rapid.Bool().Draw(r, "null") {
				c.value = nil
			}
			cells = append(cells, c)
		}
		want := stateOf(t, options(), newTable(cells...))

		shuffled := append(cells[:1:1], rapid.Permutation(cells[1:]).Draw(r, "order")...)
		at := rapid.IntRange(1, len(shuffled)).Draw(r, "at")
		wider := append(append(shuffled[:at:at], cell{"zz_new", source.Int, 0, nil}), shuffled[at:]...)
		if got := stateOf(t, options(), newTable(wider...)); got != want {
			r.Fatalf("state of %v is not that of %v", wider, cells)
		}
		if got := stateOf(t, options(), newTable(append(cells, cell{"zz_new", source.Int, 0, "0"})...)); got == want {
			r.Fatal("a new column with a value changes nothing")
		}
	})
}

func TestTheStateCoversWhatARowSaysAndNotThatItWasTouched(t *testing.T) {
	rows := func(id, name, value, created, modified string) *table {
		return newTable(
			cell{"id", source.Int, 0, id}, cell{"name", source.Text, 0, name}, cell{"value", source.Text, 0, value},
			cell{"created", source.Timestamp, 0, created}, cell{"modified", source.Timestamp, 0, modified},
		).key("name").created("created").modified("modified")
	}
	const early, late = "2026-01-01 00:00:00", "2026-01-02 00:00:00"
	base := stateOf(t, options(), rows("1", "n", "v", early, early))
	t.Run("a heartbeat changes nothing", func(t *testing.T) {
		if stateOf(t, options(), rows("1", "n", "v", late, late)) != base {
			t.Error("it does")
		}
	})
	t.Run("a REPLACE with the same values changes nothing", func(t *testing.T) {
		replaced := rows("1", "n", "v", early, early)
		if encode(t, options(), replaced, replaced.row(2)).Digest != base {
			t.Error("it does")
		}
	})
	for name, other := range map[string]*table{
		"another value":                  rows("1", "n", "w", early, early),
		"another key":                    rows("1", "m", "v", early, early),
		"a letter moved between columns": rows("1", "nv", "", early, early),
	} {
		t.Run(name+" changes it", func(t *testing.T) {
			if stateOf(t, options(), other) == base {
				t.Error("it does not")
			}
		})
	}
	t.Run("a column outside the whitelist changes nothing", func(t *testing.T) {
		o := options()
		o.Fields = []event.Field{{"name", "n"}}
		if stateOf(t, o, rows("1", "n", "v", early, early)) != stateOf(t, o, rows("1", "n", "w", early, early)) {
			t.Error("it does")
		}
	})
}

func TestTheStateOfLongValuesCoversEveryByte(t *testing.T) {
	seen := map[[16]byte]string{}
	for _, length := range []int{0, 1, 127, 128, 4000, 4095, 4096, 4097, 5000, 100_000} {
		for _, last := range []string{"", "x"} {
			value := fmt.Sprintf("%0*d", length, 0) + last
			rows := newTable(cell{"id", source.Int, 0, "1"}, cell{"a", source.Text, 0, value}, cell{"b", source.Text, 0, "b"})
			name := fmt.Sprintf("%d bytes", len(value))
			state := stateOf(t, options(), rows)
			if other, ok := seen[state]; ok && other != name {
				t.Errorf("%s have the state of %s", name, other)
			}
			seen[state] = name
			if want := referenceState(&rows.columns, rows.values); string(state[:]) != string(want) {
				t.Errorf("state of %s is not that of the reference", name)
			}
		}
	}
}
