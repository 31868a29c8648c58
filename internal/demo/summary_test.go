package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestVerdictSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name    string
		verdict Verdict
		says    string
	}{
		{"a lost state", Verdict{States: 2, Events: 1, Lost: []Fact{{Table: "t", ID: 7, State: "gone"}}}, `lost 1 state, the first is "gone" of id 7 of t`},
		{"an older state after a newer one", Verdict{States: 2, Events: 2, Stale: 1}, "entities whose last event is not their last state: 1"},
		{"an event about nothing", Verdict{Events: 1, Unknown: 1}, "1 event on the bus about what was never written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := (&Stage{Out: &out}).verdict(c.verdict, time.Second); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v\n%s", err, out.String())
			}
		})
	}
}
