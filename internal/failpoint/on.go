//go:build bridge_failpoints

package failpoint

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// Enabled says that this is a build with failpoints.
const Enabled = true

// listed is opened before main, so that a bad list ends the process at its start.
var listed = func() *set {
	s := &set{die: die, refuse: refuse}
	if err := s.open(os.Getenv(Variable)); err != nil {
		refuse(err)
	}
	return s
}()

// At passes a point and returns the error that the list has for it.
func At(point Point) error {
	_, err := listed.pass(point)
	return err
}

// Pass passes a point that cannot fail.
func Pass(point Point) { _, _ = listed.pass(point) }

// Shift passes a point that is a clock and returns by how much it is to be wrong.
func Shift(point Point) time.Duration {
	by, _ := listed.pass(point)
	return by
}

// die ends the process as kill -9 does.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func refuse(err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", Variable, err)
	os.Exit(2)
}
