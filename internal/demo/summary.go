package demo

import (
	"fmt"
	"strings"
	"time"

	"bridge/internal/terminal"
)

// sum says of which parts the changes that were written consist, where that is not the events
// alone.
func sum(v Verdict) string {
	parts := []string{fmt.Sprintf("%d received", v.Events-v.Unknown-v.Repeated)}
	for _, p := range []struct {
		n    int
		what string
	}{
		{len(v.Lost), "lost"},
		{v.Brief, "overwritten before it could be read"},
		{v.Unchanged, "that brought back what was published"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return fmt.Sprintf("\n           = %s", strings.Join(parts, "\n           + "))
}

// lossError says that the judge found something.
type lossError struct{ text string }

func (e *lossError) Error() string { return e.text }

// verdict prints the summary; the error says what is wrong.
func (s *Stage) verdict(v Verdict, ran time.Duration) error {
	var text strings.Builder
	fmt.Fprintf(&text, `
written    %s in %s%s
received   %d, read by a subscriber from the beginning of the stream
lost       %d, repeated %d, out of date at the end %d
noticed    tail %d, late %d, second cursor %d, reconcile %d
latency    p50 %s, p99 %s from COMMIT to the bus (without reconcile)
`, terminal.Count(v.States, "change"), ran.Round(100*time.Millisecond), sum(v), v.Events, len(v.Lost), v.Repeated, v.Stale,
		v.Events-v.Late-v.Modified-v.Reconciled, v.Late, v.Modified, v.Reconciled, Millis(v.P50), Millis(v.P99))
	if s.Kept != "" {
		fmt.Fprintf(&text, "kept       %s\n", s.Kept)
	}
	switch _, err := fmt.Fprint(s.Out, text.String()); {
	case err != nil:
		return err
	case len(v.Lost) > 0:
		first := v.Lost[0]
		return &lossError{fmt.Sprintf("lost %s, the first is %q of id %d of %s: keep the folder with --keep and report it", terminal.Count(len(v.Lost), "state"), first.State, first.ID, first.Table)}
	case v.Stale > 0:
		return &lossError{fmt.Sprintf("entities whose last event is not their last state: %d: keep the folder with --keep and report it", v.Stale)}
	case v.Unknown > 0:
		return &lossError{fmt.Sprintf("%s on the bus about what was never written: keep the folder with --keep and report it", terminal.Count(v.Unknown, "event"))}
	}
	return nil
}
