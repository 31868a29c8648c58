package acceptance

import (
	"fmt"
	"strings"
	"time"
)

// seconds is a duration as the matrix writes it.
type seconds float64

func inSeconds(d time.Duration) seconds { return seconds(d.Round(10 * time.Millisecond).Seconds()) }

// score is one row of the matrix.
type score struct {
	Family string `json:"family"`
	Fault  string `json:"fault"`
	What   string `json:"what"`
	Bus    string `json:"bus"`
	// Seed, Short and Day tell the run that the row is from.
	Seed  uint64 `json:"seed"`
	Short bool   `json:"short"`
	Day   string `json:"day"`
	// Events counts distinct events, Repeated those that were stored once more with the same id and bytes.
	Events   int `json:"events"`
	Repeated int `json:"repeated"`
	// Lost counts committed rows and states that never came, OtherID facts that came again as another event, Disorder states that
	// came behind newer ones, RolledBack what was never committed, Wrong events that are not what the table had, False entities
	// that the bus folds to something else than the table.
	Lost       int `json:"lost"`
	OtherID    int `json:"otherId"`
	Disorder   int `json:"outOfOrder"`
	RolledBack int `json:"rolledBack"`
	Wrong      int `json:"wrongContent"`
	False      int `json:"falseAtTheEnd"`
	// LeftOver counts entities that are gone and that the bus still has, for want of what was known of them: bridge verify names them all.
	LeftOver int `json:"leftOver,omitempty"`
	// Recovery is the time from the end of the harm until all that was committed before it is on the bus and the program is ready.
	Recovery seconds `json:"recoverySeconds"`
	// LogLines counts the lines that the program wrote.
	LogLines int `json:"logLines"`
	// Passed is false when anything was not as it has to be; Findings say what.
	Passed   bool     `json:"passed"`
	Findings []string `json:"findings,omitempty"`
}

func (s score) String() string {
	verdict := "ok"
	if !s.Passed {
		verdict = "FAILED"
	}
	return fmt.Sprintf("%s: %d events, %d repeated, lost %d, other id %d, out of order %d, rolled back %d, wrong %d, false %d, recovered in %.1f s",
		verdict, s.Events, s.Repeated, s.Lost, s.OtherID, s.Disorder, s.RolledBack, s.Wrong, s.False, float64(s.Recovery))
}

// verdict is what the page says of a row.
func (s *score) verdict() string {
	if s.Passed {
		return "passed"
	}
	return "**failed**"
}

// kinds says which figure of a score a finding of a judge counts into; others are wrong content.
var kinds = map[string]func(*score) *int{
	"repeated otherwise":    func(s *score) *int { return &s.OtherID },
	"shared event id":       func(s *score) *int { return &s.OtherID },
	"one id for two events": func(s *score) *int { return &s.OtherID },
	"nothing new":           func(s *score) *int { return &s.OtherID },
	"rolled back":           func(s *score) *int { return &s.RolledBack },
	"not committed":         func(s *score) *int { return &s.RolledBack },
	"order of an entity":    func(s *score) *int { return &s.Disorder },
	"not ascending":         func(s *score) *int { return &s.Disorder },
	"out of order":          func(s *score) *int { return &s.Disorder },
	"link":                  func(s *score) *int { return &s.Disorder },
	"operation":             func(s *score) *int { return &s.Disorder },
	"missing":               func(s *score) *int { return &s.Lost },
	"stale":                 func(s *score) *int { return &s.False },
	"extra":                 func(s *score) *int { return &s.False },
	"deleted though it existed all the while": func(s *score) *int { return &s.False },
}

// count adds what a judge found.
func (s *score) count(stream string, a *account) {
	s.Events += a.published
	s.Repeated += a.repeated
	s.Lost += len(a.lost)
	for kind, n := range a.counts {
		figure := &s.Wrong
		if of := kinds[kind]; of != nil {
			figure = of(s)
		}
		*figure += n
	}
	if verdict := a.verdict(); verdict != "" {
		s.find("%s: %s", stream, strings.ReplaceAll(verdict, "\n", "; "))
	}
}

// find notes what is not as it has to be.
func (s *score) find(format string, args ...any) {
	s.Findings = append(s.Findings, fmt.Sprintf(format, args...))
}

// torn are the findings about the chain of an entity's events that are as they have to be when what was known of entities was lost.
var torn = []string{"link", "operation", "nothing new", "one id for two events"}

// leftOver are entities that came and went while the program knew nothing of either.
var leftOver = []string{"extra"}

// forgive takes out what a torn chain brings with it.
func (a *account) forgive(kinds []string) {
	for _, kind := range kinds {
		if _, found := a.counts[kind]; !found {
			continue
		}
		delete(a.counts, kind)
		kept := a.faults[:0]
		for _, f := range a.faults {
			if !strings.HasPrefix(f, kind+": ") {
				kept = append(kept, f)
			}
		}
		a.faults = kept
	}
}
