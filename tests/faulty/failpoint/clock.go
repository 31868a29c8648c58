package failpoint

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unsafe"
)

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
