package verify_test

import (
	"slices"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest/memory"
)

// forms are the forms that a stream has had one after the other.
var forms = []event.Form{
	{Format: event.FormatEiffel, Version: "1.0.0"}, {Format: event.FormatCloudEvents, Version: "1.0.0"}, {Format: event.FormatRow, Version: "1.0.0"},
	{Format: event.FormatRow, Version: "2.0.0"}, {Format: event.FormatEiffel, Version: "2.0.0"},
}

// formed publishes rows in one form after the other, an entity of each. The check has the last one.
func formed(t *testing.T, kind event.Kind) *world {
	t.Helper()
	w := newWorld(t, kind)
	for i, f := range forms {
		w.options.Format, w.options.Version = f.Format, f.Version
		w.encoder = w.newEncoder()
		w.encoder.As(f)
		name := string(rune('a' + i))
		id := w.insert(name, "x")
		if kind == event.Capability {
			w.replace(id, name, "y")
			w.remove(w.insert(name+"-gone", "x"), name+"-gone")
		} else {
			w.insert(name, "y")
		}
	}
	return w
}

func TestEveryFormIsJudged(t *testing.T) {
	for _, kind := range []event.Kind{event.Capability, event.Release} {
		t.Run(string(kind), func(t *testing.T) {
			w := formed(t, kind)
			want(t, w.check(), "")
			clean := w.bus.messages
			for i, m := range clean {
				for name, change := range map[string]func(m *message){
					"the first byte of its last member is another": func(m *message) { m.Value = altered(m.Value) },
					"its header of the type is another":            func(m *message) { m.Header[sink.HeaderType] = "ThingsOtherEvent" },
					"its header of the version is another":         func(m *message) { m.Header[sink.HeaderVersion] = "7.0.0" },
				} {
					one := clone(m)
					if change(one); one.Header[sink.HeaderTime] != "" && one.Header[sink.HeaderVersion] != m.Header[sink.HeaderVersion] {
						// Nothing else says the version of a row.
						continue
					}
					w.bus.messages = append(append(append([]*message{}, clean[:i]...), one), clean[i+1:]...)
					if r := w.check(); r.Good {
						t.Errorf("message %d: nothing was found although %s: %s", i, name, one.Value)
					}
				}
			}
		})
	}
}

// altered returns a value with another letter in it: the first x or y, or the name of the entity.
func altered(value []byte) []byte {
	changed := append([]byte{}, value...)
	for i := len(changed) - 1; i > 0; i-- {
		if string(changed[i-1:i+1]) == `"x` || string(changed[i-1:i+1]) == `"y` || string(changed[i-1:i+1]) == "-g" {
			changed[i] = 'z'
			return changed
		}
	}
	panic(string(value))
}

// TestBitsOfAKey: an event does not tell the width of a bit field in its key, which meta.id is made
// of.
func TestBitsOfAKey(t *testing.T) {
	w, columns := stamped(t, event.Capability), slices.Clone(list)
	columns[1].Kind = source.Bit
	w.table = memory.NewTable(spec, columns...)
	w.insert("\x00\x05", "on")
	want(t, w.check(), "")
	w.setState(0, func(s *sink.State) { s.Digest[3]++ })
	want(t, w.check(), "altered 1")
}
