package must

import (
	"errors"
	"strings"
	"time"
)

// T is a test, of its goroutine.
type T interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// OK ends a test unless err is nil.
func OK(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get ends a test unless err is nil, and returns v, as in must.Get(os.ReadFile(name))(t).
func Get[V any](v V, err error) func(t T) V {
	return func(t T) V {
		t.Helper()
		OK(t, err)
		return v
	}
}

// Fail ends a test unless err is an error that is each one of want, or says it where that is a
// text.
func Fail(t T, err error, want ...any) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %v", want)
	}
	for _, w := range want {
		target, is := w.(error)
		if is && !errors.Is(err, target) || !is && !strings.Contains(err.Error(), w.(string)) {
			t.Fatalf("the error is %v, want %v", err, w)
		}
	}
}

// Err returns the error of a call, as in must.Fail(t, must.Err(os.Stat(name)), fs.ErrNotExist).
func Err[V any](_ V, err error) error { return err }

// Until waits until a look finds nothing wrong: nil or an empty text. It ends the test with what
// the last one found. There are fewer looks the longer that takes, and where a look costs much.
func Until(t T, limit time.Duration, what string, look func() (wrong any)) {
	t.Helper()
	for begun := time.Now(); ; {
		looked := time.Now()
		wrong := look()
		if wrong == nil || wrong == "" {
			return
		}
		if time.Since(begun) > limit {
			t.Fatalf("not within %s: %s: %v", limit, what, wrong)
		}
		time.Sleep(max(20*time.Millisecond, min(time.Since(begun)/20, 250*time.Millisecond), min(3*time.Since(looked), time.Second)))
	}
}
