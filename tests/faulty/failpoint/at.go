package failpoint

import (
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// listed is loaded before main, so that an invalid list ends the process at its start.
var listed = func() *list {
	l := &list{path: os.Getenv(Variable), kill: kill, stop: stop, refuse: func(err error) { refuse(Variable, err) }}
	if l.path != "" {
		if err := l.load(); err != nil {
			l.refuse(err)
		}
	}
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
		listed.refuse(fmt.Errorf("%s cannot fail", point))
	}
}

// Shift passes a point that is a clock and returns by how much it is wrong.
func Shift(point Point) time.Duration {
	by, _ := listed.pass(point)
	return by
}

// Environment variables with times that make a test wait: how often the store is made durable, and
// after how long Kafka aborts a transaction that was left.
const (
	SyncVariable        = "BRIDGE_TEST_SYNC_EVERY"
	TransactionVariable = "BRIDGE_TEST_TRANSACTION_TIMEOUT"
)

// Time returns what a variable says, otherwise without it.
func Time(variable string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(os.Getenv(variable)); err == nil {
		return d
	}
	return otherwise
}

// defect is the one of this process, "" for none.
var defect = func() Defect {
	d := Defect(os.Getenv(MutantVariable))
	if d != "" && !slices.Contains(Defects, d) {
		refuse(MutantVariable, fmt.Errorf("unknown defect %q", d))
	}
	return d
}()

// passes counts the events that may have a defect.
var passes atomic.Uint64

// Mutant reports whether the program is to behave here as its defect says.
func Mutant(d Defect) bool {
	if d != defect {
		return false
	}
	switch d {
	case DropOne, AlterOne:
		return passes.Add(1)%1000 == 500
	case SkipOne:
		return passes.Add(1)%10 == 5
	}
	return true
}

// kill ends the process as kill -9 does.
func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// stop has the process stand still until SIGCONT.
func stop() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

func refuse(variable string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", variable, err)
	os.Exit(2)
}
