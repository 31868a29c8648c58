package sink_test

import (
	"testing"

	"bridge/sink"
)

func TestFormsAreReadAsTheyAreWritten(t *testing.T) {
	for _, m := range []sink.Message{{}, {Form: 1}, {Form: 1<<32 - 1, Born: 7}} {
		form, born := (&sink.Fields{Form: m.AppendForm(nil)}).ParseForm()
		if form != m.Form || born != m.Born {
			t.Errorf("%d %d, want %d %d", form, born, m.Form, m.Born)
		}
	}
	for _, text := range []string{"", "abc", "abcdefghijkl", "!!!!!!"} {
		if form, _ := (&sink.Fields{Form: []byte(text)}).ParseForm(); form != 0 {
			t.Errorf("%q is read as %d", text, form)
		}
	}
	text := sink.AppendServer(nil, 1760000000, "db one\n/shop")
	if started, server := (&sink.Fields{Server: text}).ParseServer(); started != 1760000000 || server != "db one /shop" {
		t.Errorf("%d %q", started, server)
	}
}

// TestEachDestinationHasAFirstMessage: a consumer of one alone reads there what the batch has in
// common.
func TestEachDestinationHasAFirstMessage(t *testing.T) {
	var batch []sink.Message
	for i := range 30 {
		batch = append(batch, sink.Message{Destination: string(rune('a' + i/2%10)), Value: []byte("{}"), Schema: "0123456789ab", Version: "1.0.0", State: sink.State{Index: uint32(i)}})
	}
	sink.NoteFirst(batch)
	for i := range batch {
		said := false
		batch[i].EachHeader(func(name, _ string) { said = said || name == sink.HeaderSchema })
		if want := i%2 == 0 && i < 16; said != want {
			t.Errorf("message %d to %s says its schema: %t, want %t", i, batch[i].Destination, said, want)
		}
	}
}
