package event_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"bridge/event"
)

func TestMembersAreThoseOfTheEventInTheirOrder(t *testing.T) {
	for name, test := range map[string]struct {
		options event.Options
		live    *table
		dead    *table
	}{
		"all columns": {appRevisionOptions(), appRevision("0"), appRevision("1")},
		"a whitelist": {stpOlderFormat(), stpCapability("64", "N"), stpCapability("64", "Y")},
	} {
		t.Run(name, func(t *testing.T) {
			for _, rows := range []*table{test.live, test.dead} {
				encoder := bind(t, test.options, rows)
				_, ev, err := encoder.Append(nil, rows.row(8))
				if err != nil {
					t.Fatal(err)
				}
				var want []string
				for _, name := range memberNames(t, ev.Body) {
					if name != "row" && name != "reason" {
						want = append(want, name)
					}
				}
				var got []string
				for _, m := range encoder.Members(ev.Op == event.Deleted) {
					got = append(got, m.Name)
					if v := parse(t, ev.Body).Data[m.Name]; rows.values[m.Column] == nil != (string(v) == "null") {
						t.Errorf("member %s of column %d is %s", m.Name, m.Column, v)
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("members %v, want %v", got, want)
				}
			}
		})
	}
	t.Run("none before Bind", func(t *testing.T) {
		unbound, err := event.NewEncoder(options())
		if err != nil {
			t.Fatal(err)
		}
		if got := unbound.Members(false); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	})
}

// memberNames returns the names of the members of data in their order.
func memberNames(t *testing.T, body []byte) []string {
	t.Helper()
	var document struct{ Data json.RawMessage }
	if err := json.Unmarshal(body, &document); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(document.Data))
	var names []string
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case json.Delim:
			if depth++; token == '}' || token == ']' {
				depth -= 2
			}
			if depth == 0 {
				return names
			}
		case string:
			if depth == 1 {
				names = append(names, token)
				var value json.RawMessage
				if err := d.Decode(&value); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
