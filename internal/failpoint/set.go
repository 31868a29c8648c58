package failpoint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"
)

// checkEvery is how often the file of a list is looked at, at most.
const checkEvery = 50 * time.Millisecond

// set is a list as it stands. It is safe for concurrent use.
type set struct {
	// die ends the process, refuse does so because of a list that cannot be read; neither returns, save in tests.
	die    func()
	refuse func(error)

	mu sync.Mutex
	// path is the file of the list, empty when it stands for good.
	path string
	text string
	// changes counts how often the list was replaced, checked is when that was last looked for.
	changes int
	checked time.Time
	actions map[Point]*action
}

// open reads the list from the variable's value.
func (s *set) open(value string) (err error) {
	path, inFile := strings.CutPrefix(value, "file:")
	if !inFile {
		s.actions, err = parse(value)
		return err
	}
	s.path = path
	return s.reload()
}

// reload reads the file and takes its list over when that has changed.
func (s *set) reload() error {
	s.checked = time.Now()
	text, err := os.ReadFile(s.path)
	if err != nil {
		return fmt.Errorf("read the list: %w", err)
	}
	if s.actions != nil && s.text == string(text) {
		return nil
	}
	actions, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	s.text, s.actions = string(text), actions
	s.changes++
	return nil
}

// pass does what the list says at a point.
func (s *set) pass(point Point) (time.Duration, error) {
	a, changes, acts := s.take(point)
	if !acts {
		return 0, nil
	}
	switch a.verb {
	case kill:
		s.die()
	case fail:
		return 0, a.err
	case sleep:
		time.Sleep(a.by)
	case hang:
		for s.changed() == changes {
			time.Sleep(checkEvery)
		}
	case shift:
		return a.by, nil
	}
	return 0, nil
}

// take draws whether there is something to do at a point and counts it. changes tells the list from a later one.
func (s *set) take(point Point) (a action, changes int, acts bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	listed := s.actions[point]
	if listed == nil || listed.left == 0 || listed.probability < 1 && rand.Float64() >= listed.probability {
		return action{}, s.changes, false
	}
	if listed.left > 0 {
		listed.left--
	}
	return *listed, s.changes, true
}

// changed looks at the file and returns how often the list was replaced.
func (s *set) changed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s.changes
}

// refresh looks at the file when that is due.
func (s *set) refresh() {
	if s.path == "" || time.Since(s.checked) < checkEvery {
		return
	}
	if err := s.reload(); err != nil {
		s.refuse(err)
	}
}
