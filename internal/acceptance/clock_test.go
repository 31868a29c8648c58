package acceptance

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// clockVariable says by how much the wall clock of a program with wrongClock is wrong: "1h", "-1h", or "1h@5s" for from 5 s after
// the start on.
const clockVariable = "BRIDGE_TEST_CLOCK"

// wrongClock makes the wall clock of the whole program wrong and leaves the monotonic reading as it is, as when the clock of a
// machine is set.
var wrongClock = []edit{
	{"$GOROOT/src/time/time.go", "\t\"math/bits\"\n", "\t\"math/bits\"\n\t\"sync\"\n\t\"syscall\"\n"},
	{"$GOROOT/src/time/time.go", "// Now returns the current local time.\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n", `
var wrong struct {
	once     sync.Once
	by, from Duration
}

func readWrong() {
	value, _ := syscall.Getenv("` + clockVariable + `")
	if value == "" {
		return
	}
	by, from := value, "0s"
	for i := range value {
		if value[i] == '@' {
			by, from = value[:i], value[i+1:]
		}
	}
	var err, err2 error
	wrong.by, err = ParseDuration(by)
	wrong.from, err2 = ParseDuration(from)
	if err != nil || err2 != nil {
		panic("` + clockVariable + `: want a time such as 1h or -1h@5s")
	}
}

// Now returns the current local time.
func Now() Time {
	sec, nsec, mono := runtimeNow()
	wrong.once.Do(readWrong)
	if wrong.by != 0 && mono-startNano >= int64(wrong.from) {
		moved := int64(nsec) + int64(wrong.by%Second)
		sec += int64(wrong.by / Second)
		if moved < 0 {
			sec, moved = sec-1, moved+int64(Second)
		} else if moved >= int64(Second) {
			sec, moved = sec+1, moved-int64(Second)
		}
		nsec = int32(moved)
	}
`},
}

// withWrongClock builds the program with a wall clock that obeys clockVariable.
func withWrongClock(t testing.TB, tags ...string) string {
	t.Helper()
	return program{name: "wrong clock", tags: tags, edits: wrongClock}.build(t)
}

// logged returns the wall clock's readings in a daemon's log of text.
func (d *daemon) logged() []time.Time {
	d.t.Helper()
	var read []time.Time
	for _, found := range logTime.FindAllStringSubmatch(d.log.String(), -1) {
		at, err := time.Parse(time.RFC3339, found[1])
		if err != nil {
			d.t.Fatal(err)
		}
		read = append(read, at)
	}
	return read
}

var logTime = regexp.MustCompile(`(?m)^time=(\S+) `)

// TestAWrongClock is for the soak: every package is compiled anew for it, and `make torture` sets the clock wrong as well.
func TestAWrongClock(t *testing.T) {
	if !soak {
		t.Skip("compiles everything anew: part of `make soak` (BRIDGE_TEST_SOAK=1)")
	}
	t.Parallel()
	for _, c := range []struct {
		value       string
		first, last time.Duration
	}{
		{"", 0, 0},
		{"1h", time.Hour, time.Hour},
		{"-1h", -time.Hour, -time.Hour},
		{"1h@2s", 0, time.Hour},
		{"-1h@2s", 0, -time.Hour},
	} {
		t.Run("of "+c.value+" shows and does no harm", func(t *testing.T) {
			t.Parallel()
			shop := newSmallShop(t)
			shop.insert(1)
			d := newDaemon(t, withWrongClock(t), shop.env.with(env{clockVariable: c.value, "BRIDGE_STABILITY_WINDOW": "100ms"}))
			d.start()
			prints(t, d, 1)
			pause(3 * time.Second)
			shop.insert(1)
			prints(t, d, 2)
			if code, body := d.get("/livez"); code != 200 {
				t.Errorf("/livez %d: %s", code, body)
			}
			if status, took := d.term(); status != 0 || took > 5*time.Second {
				t.Errorf("exit status %d after %s", status, took)
			}
			read := d.logged()
			if len(read) < 2 {
				t.Fatalf("the log has %d times:\n%s", len(read), d.log)
			}
			for i, want := range map[int]time.Duration{0: c.first, len(read) - 1: c.last} {
				if wrong := time.Until(read[i]); (wrong - want).Abs() > time.Minute {
					t.Errorf("line %d is wrong by %s, want %s:\n%s", i, wrong, want, d.log)
				}
			}
		})
	}
	t.Run("that is no time ends the program", func(t *testing.T) {
		t.Parallel()
		d := newDaemon(t, withWrongClock(t), env{clockVariable: "soon"})
		d.start()
		_ = d.wait()
		if !strings.Contains(d.log.String(), clockVariable) {
			t.Errorf("the log does not name the variable:\n%s", d.log)
		}
	})
}
