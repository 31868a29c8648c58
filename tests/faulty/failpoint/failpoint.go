package failpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
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

	mu   sync.Mutex
	text []byte
	// changes counts the lists read, checked is when the file was last read.
	changes int
	checked time.Time
	actions []Action
}

// load reads the file and replaces the actions if it has changed.
func (l *list) load() {
	l.checked = time.Now()
	text, err := os.ReadFile(l.path)
	if err == nil && !bytes.Equal(text, l.text) {
		l.text, l.actions = text, nil
		l.changes++
		err = json.Unmarshal(text, &l.actions)
	}
	if err != nil {
		refuse(Variable, fmt.Errorf("%s: %w", l.path, err))
	}
}

func (l *list) pass(point Point) (shift time.Duration, err error) {
	a, changes := l.next(point)
	if a.Kill {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	if a.Stop {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
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
		l.load()
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

// listed is loaded before main, so that an invalid list ends the process at its start.
var listed = func() *list {
	l := &list{path: os.Getenv(Variable)}
	l.next("")
	return l
}()

// At passes a point and returns the error that the list has for it.
func At(point Point) error {
	_, err := listed.pass(point)
	return err
}

// Pass passes a point that cannot fail.
func Pass(point Point) {
	if err := At(point); err != nil {
		refuse(Variable, fmt.Errorf("%s cannot fail", point))
	}
}

// Shift passes a point that is a clock and returns by how much it is wrong.
func Shift(point Point) time.Duration {
	by, _ := listed.pass(point)
	return by
}

// Environment variables with times that make a test wait: how often the store is made durable,
// after how long Kafka aborts a transaction that was left, and for how long a process of a former
// number of shares is waited for that gives no sign.
const (
	SyncVariable        = "BRIDGE_TEST_SYNC_EVERY"
	TransactionVariable = "BRIDGE_TEST_TRANSACTION_TIMEOUT"
	SilenceVariable     = "BRIDGE_TEST_SILENCE"
	LookVariable        = "BRIDGE_TEST_LOOK_EVERY"
)

// Time returns what a variable says, otherwise without it.
func Time(variable string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(os.Getenv(variable)); err == nil {
		return d
	}
	return otherwise
}

// MutantVariable is the environment variable that names the one defect of a program, a mutant.
const MutantVariable = "BRIDGE_TEST_MUTANT"

var defect = os.Getenv(MutantVariable)

// Kept is where mutants keep what they use later, by keys of their own.
var Kept sync.Map

// passes counts the events that may have a defect.
var passes atomic.Uint64

// Mutant reports whether the program is to behave here as its defect says.
func Mutant(d string) bool {
	if d != defect {
		return false
	}
	switch d {
	case "drop-one", "alter-one":
		return passes.Add(1)%1000 == 500
	case "skip-one":
		return passes.Add(1)%10 == 5
	}
	return true
}

func refuse(variable string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", variable, err)
	os.Exit(2)
}

// ClockVariable is the environment variable that says by how much the wall clock of the program is
// wrong: "1h", "-1h", or "1h@5s" for from 5 s after the start on.
const ClockVariable = "BRIDGE_TEST_CLOCK"

var began = time.Now()

var wrong = sync.OnceValues(func() (by, from time.Duration) {
	value := os.Getenv(ClockVariable)
	if value == "" {
		return 0, 0
	}
	shift, since, late := strings.Cut(value, "@")
	by, err := time.ParseDuration(shift)
	if err == nil && late {
		from, err = time.ParseDuration(since)
	}
	if err != nil {
		refuse(ClockVariable, fmt.Errorf("want a time such as 1h or -1h@5s: %w", err))
	}
	return by, from
})

// Now returns the current time by a clock that is wrong by whole seconds. As when the clock of a
// machine is set, the monotonic reading is right.
func Now() time.Time {
	t := time.Now()
	if by, from := wrong(); by != 0 && time.Since(began) >= from {
		// The first word of a Time with a monotonic reading has its seconds above 30 bits.
		*(*uint64)(unsafe.Pointer(&t)) += uint64(by/time.Second) << 30
	}
	return t
}
