package outage

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLog(t *testing.T) {
	open := func() (*Log, *bytes.Buffer) {
		var out bytes.Buffer
		return New(slog.New(slog.NewTextHandler(&out, nil))), &out
	}
	refused := errors.New("connection refused")

	t.Run("a fault is logged when it begins, with a remedy, once a minute, and when it ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, out := open()
			for range 10 * 150 {
				l.Fail("bus", refused)
				<-time.After(100 * time.Millisecond)
			}
			if got := strings.Count(out.String(), "\n"); got != 3 {
				t.Errorf("%d lines for a fault of 150 s, want 3:\n%s", got, out)
			}
			l.OK("bus")
			l.OK("bus")
			if got := strings.Count(out.String(), "\n"); got != 4 {
				t.Errorf("%d lines after its end, want 4:\n%s", got, out)
			}
			for _, want := range []string{"outage begins", "bridge check says what to do", "outage lasts", "outage ended", "after=2m30s", "failures=1500", "connection refused"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the log lacks %q:\n%s", want, out)
				}
			}
		})
	})
	t.Run("a log that is closed has written how an outage ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, out := open()
			for range 2 {
				l.Fail("bus", refused)
				l.OK("bus")
			}
			out.Reset()
			l.Close()
			if got := out.String(); strings.Count(got, "outage ended") != 1 || !strings.Contains(got, "times=2") {
				t.Errorf("logged %q", got)
			}
			out.Reset()
			l.OK("bus")
			<-time.After(time.Minute)
			synctest.Wait()
			if got := out.String(); got != "" {
				t.Errorf("logged %q after it was closed", got)
			}
		})
	})
	t.Run("a fault that returns at once is in the log at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, out := open()
			l.Fail("bus", refused)
			l.OK("bus")
			<-time.After(5 * time.Second)
			out.Reset()
			l.Fail("bus", refused)
			if got := out.String(); !strings.Contains(got, "outage is back") || !strings.Contains(got, "times=2") {
				t.Errorf("logged %q", got)
			}
			<-time.After(time.Minute)
			out.Reset()
			l.OK("bus")
			<-time.After(time.Minute)
			synctest.Wait()
			if got := out.String(); !strings.Contains(got, "outage ended") || !strings.Contains(got, "times=2") {
				t.Errorf("logged %q when it has ended for good", got)
			}
		})
	})
	t.Run("a fault that comes and goes is one fault", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, out := open()
			text := func() string {
				// The last line comes from another goroutine.
				l.mu.Lock()
				defer l.mu.Unlock()
				return out.String()
			}
			for range 60 {
				l.Fail("bus", refused)
				<-time.After(2 * time.Second)
				l.OK("bus")
				if l.Err() != nil {
					t.Error("it lasts while it is gone")
				}
				<-time.After(3 * time.Second)
			}
			synctest.Wait()
			// Begin, first end, and a line a minute.
			if got := strings.Count(text(), "\n"); got > 2+5 {
				t.Errorf("%d lines in 5 minutes:\n%s", got, text())
			}
			<-time.After(time.Minute)
			synctest.Wait()
			for _, want := range []string{"times=1\n", "outage lasts", "after=4m57s failures=60 times=60\n"} {
				if !strings.Contains(text(), want) {
					t.Errorf("the log lacks %q:\n%s", want, text())
				}
			}
			lines := strings.Count(text(), "\n")
			l.Fail("bus", refused)
			l.OK("bus")
			if got := strings.Count(text(), "\n"); got != lines+2 {
				t.Errorf("%d lines for the next fault, want 2:\n%s", got-lines, text())
			}
		})
	})
	t.Run("a fault that is left goes on with the next failure, ends with a success, or is forgotten", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, out := open()
			leave := func() {
				out.Reset()
				l.Fail("bus/1", refused)
				l.Forget("bus/1")
				if l.Err() != nil {
					t.Error("a fault that nobody meets lasts")
				}
			}
			leave()
			l.Fail("bus/2", refused)
			if got := strings.Count(out.String(), "\n"); got != 1 {
				t.Errorf("%d lines, want 1:\n%s", got, out)
			}
			l.OK("bus/2")
			l.OK("bus/2")
			if got := strings.Count(out.String(), "outage ended"); got != 1 {
				t.Errorf("%d times ended:\n%s", got, out)
			}
			<-time.After(time.Minute)
			synctest.Wait()
			leave()
			l.OK("bus/2")
			if got := strings.Count(out.String(), "outage ended"); got != 1 {
				t.Errorf("%d times ended:\n%s", got, out)
			}
			<-time.After(time.Minute)
			synctest.Wait()
			leave()
			<-time.After(time.Minute)
			synctest.Wait()
			l.OK("bus/1")
			if got := strings.Count(out.String(), "\n"); got != 1 {
				t.Errorf("%d lines, want 1:\n%s", got, out)
			}
		})
	})
	t.Run("the dependencies of a group are one outage in the log", func(t *testing.T) {
		l, out := open()
		for _, dependency := range []string{"topic/1", "topic/2", "topic/3"} {
			l.Fail(dependency, refused)
		}
		l.OK("topic/1")
		l.OK("topic/3")
		l.Fail("topic/1", refused)
		if got := len(l.Outages()); got != 2 {
			t.Errorf("%d faults last, want 2", got)
		}
		l.OK("topic/1")
		l.OK("topic/2")
		if got := strings.Count(out.String(), "\n"); got != 2 {
			t.Errorf("%d lines, want 2:\n%s", got, out)
		}
	})
	t.Run("Err tells the faults that last and wraps them", func(t *testing.T) {
		l, _ := open()
		if l.Err() != nil {
			t.Errorf("got %v without a fault", l.Err())
		}
		l.Fail("b", errors.New("two"))
		l.Fail("a", refused)
		l.Fail("b", errors.New("three"))
		if got := l.Err(); !errors.Is(got, refused) || got.Error() != "a: connection refused\nb: three" {
			t.Errorf("got %v", got)
		}
		l.OK("a")
		l.OK("b")
		if l.Err() != nil {
			t.Errorf("got %v after the end", l.Err())
		}
	})
}
