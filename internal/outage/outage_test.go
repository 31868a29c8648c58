package outage_test

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/outage"
	"example.org/bridge/tests/script"
)

var errRefused = errors.New("connection refused")

// TestLog plays outages, and says what the log has of them since the start, or a reset.
func TestLog(t *testing.T) {
	for name, steps := range map[string]string{
		"a fault is logged when it begins, with a remedy, once a minute, and when it ends": `
			times 1500 fail bus | pass 100ms; lines 3; ok bus; ok bus; lines 4; has outage begins.*bridge check says what to do; has connection refused;
			has outage lasts; has outage ended.*after=2m30s failures=1500`,
		"a log that is closed has written how an outage ended": `
			times 2 fail bus | ok bus; reset; close; lines 1; has outage ended.*times=2; reset; ok bus; pass 1m; lines 0`,
		"a fault that returns at once is in the log at once": `
			fail bus; ok bus; pass 5s; reset; fail bus; has outage is back.*times=2; pass 1m; reset; ok bus; pass 1m; has outage ended.*times=2`,
		// Begin, first end, and a line a minute.
		"a fault that comes and goes is one fault": `
			times 60 fail bus | pass 2s | ok bus | lasts | pass 3s; lines 7; pass 1m; has times=1$; has outage lasts; has after=4m57s failures=60 times=60$;
			reset; fail bus; ok bus; lines 2`,
		"a fault that is left goes on with the next failure, ends with a success, or is forgotten": `
			fail bus/1; forget bus/1; lasts; fail bus/2; lines 1; ok bus/2; ok bus/2; lines 2; has outage ended; pass 1m;
			reset; fail bus/1; forget bus/1; lasts; ok bus/2; lines 2; has outage ended; pass 1m;
			reset; fail bus/1; forget bus/1; lasts; pass 1m; ok bus/1; lines 1`,
		"the dependencies of a group are one outage in the log": `
			fail topic/1; fail topic/2; fail topic/3; ok topic/1; ok topic/3; fail topic/1; lasts topic/1 topic/2; ok topic/1; ok topic/2; lines 2`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, steps) })
		})
	}
}

func play(t *testing.T, steps string) {
	var out bytes.Buffer
	l, p := outage.New(slog.New(slog.NewTextHandler(&out, nil))), script.Player{TB: t}
	p.Play(steps, func(name string, words []string) bool {
		// It locks: what was read of the log comes before what is written later.
		defer l.Outages()
		switch name {
		case "fail":
			l.Fail(words[0], errRefused)
		case "ok":
			l.OK(words[0])
		case "forget":
			l.Forget(words[0])
		case "close":
			l.Close()
		case "pass": // TIME
			_ = backoff.Pause(t.Context(), p.Duration(words[0]))
			synctest.Wait()
		case "lasts": // what does
			var names []string
			for _, o := range l.Outages() {
				names = append(names, o.Dependency)
			}
			p.Want(names, words)
		case "reset":
			out.Reset()
		case "lines": // N
			p.Want(strings.Count(out.String(), "\n"), words[0])
		case "has": // a regular expression
			if text := strings.Join(words, " "); !regexp.MustCompile("(?m)" + text).MatchString(out.String()) {
				t.Errorf("the log lacks %q:\n%s", text, &out)
			}
		default:
			return false
		}
		return true
	})
}

func TestErrTellsTheOutagesThatLast(t *testing.T) {
	l := outage.New(slog.New(slog.DiscardHandler))
	if l.Err() != nil {
		t.Errorf("got %v without a fault", l.Err())
	}
	l.Fail("b", errors.New("two"))
	l.Fail("a", errRefused)
	l.Fail("b", errors.New("three"))
	if got := l.Err(); !errors.Is(got, errRefused) || got.Error() != "a: connection refused\nb: three" {
		t.Errorf("got %v", got)
	}
	l.OK("a")
	l.OK("b")
	if l.Err() != nil {
		t.Errorf("got %v after the end", l.Err())
	}
}
