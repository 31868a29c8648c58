package failpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"
)

// Variable is the environment variable that names the file of the list.
const Variable = "BRIDGE_TEST_FAILPOINTS"

// Action is what happens at a point. A list holds at most one action for each point.
type Action struct {
	Point Point
	// Kill sends SIGKILL to the process itself, Stop SIGSTOP: it stands still until SIGCONT.
	Kill bool `json:",omitempty"`
	Stop bool `json:",omitempty"`
	// Hang blocks until the list changes, Sleep for a time.
	Hang  bool          `json:",omitempty"`
	Sleep time.Duration `json:",omitempty"`
	// Error is the text of the error that the point fails with.
	Error string `json:",omitempty"`
	// Shift is added to the clock that is read at the point.
	Shift time.Duration `json:",omitempty"`
	// Chance is the probability that the action happens on one pass. Defaults to 1.
	Chance float64 `json:",omitempty"`
	// Times bounds how often the action happens. 0: no bound.
	Times int `json:",omitempty"`
}

// checkEvery is how often the file of a list is read again, at most.
const checkEvery = 50 * time.Millisecond

// list holds the actions of a file. It is safe for concurrent use.
type list struct {
	// path is the file, empty where there are no actions.
	path string
	// kill ends the process, refuse does so because of an invalid list; neither returns, save in
	// tests. stop has the process stand still.
	kill, stop func()
	refuse     func(error)

	mu   sync.Mutex
	text []byte
	// changes counts the lists read, checked is when the file was last read.
	changes int
	checked time.Time
	actions []Action
}

// load reads the file and replaces the actions if it has changed.
func (l *list) load() error {
	l.checked = time.Now()
	text, err := os.ReadFile(l.path)
	if err != nil || l.changes > 0 && bytes.Equal(text, l.text) {
		return err
	}
	var actions []Action
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&actions); err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	for _, a := range actions {
		if !slices.Contains(Points, a.Point) {
			return fmt.Errorf("%s: unknown point %q", l.path, a.Point)
		}
	}
	l.text, l.actions = text, actions
	l.changes++
	return nil
}

// pass does what the list says at a point.
func (l *list) pass(point Point) (shift time.Duration, err error) {
	a, changes := l.next(point)
	if a.Kill {
		l.kill()
	}
	if a.Stop {
		l.stop()
	}
	if a.Sleep > 0 {
		time.Sleep(a.Sleep)
	}
	for a.Hang {
		time.Sleep(checkEvery)
		_, now := l.next("")
		a.Hang = now == changes
	}
	if a.Error != "" {
		err = errors.New(a.Error)
	}
	return a.Shift, err
}

// next returns the action that happens on this pass of a point, and the number of the list.
func (l *list) next(point Point) (Action, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.path != "" && time.Since(l.checked) >= checkEvery {
		if err := l.load(); err != nil {
			l.refuse(err)
		}
	}
	i := slices.IndexFunc(l.actions, func(a Action) bool { return a.Point == point })
	if i < 0 || l.actions[i].Chance > 0 && rand.Float64() >= l.actions[i].Chance {
		return Action{}, l.changes
	}
	a := l.actions[i]
	switch a.Times {
	case 0:
	case 1:
		l.actions = slices.Delete(l.actions, i, i+1)
	default:
		l.actions[i].Times--
	}
	return a, l.changes
}
