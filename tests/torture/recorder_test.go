package torture

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// recorder is a test that notes what is wrong instead of failing. What cleans up after it runs at
// the end of run.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	findings []string
	cleanups []func()
}

// run runs do in a goroutine that Fatal ends.
func (r *recorder) run(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, clean := range slices.Backward(r.cleanups) {
				clean()
			}
		}()
		do()
	}()
	<-done
}

func (r *recorder) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = append(r.findings, text)
}

func (r *recorder) Cleanup(f func())             { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(args ...any)            { r.note(fmt.Sprint(args...)) }
func (r *recorder) Errorf(form string, a ...any) { r.note(fmt.Sprintf(form, a...)) }
func (r *recorder) Fatal(args ...any)            { r.note(fmt.Sprint(args...)); runtime.Goexit() }
func (r *recorder) Fatalf(form string, a ...any) { r.note(fmt.Sprintf(form, a...)); runtime.Goexit() }
func (r *recorder) FailNow()                     { runtime.Goexit() }
func (r *recorder) Failed() bool                 { r.mu.Lock(); defer r.mu.Unlock(); return len(r.findings) > 0 }
func (r *recorder) Log(...any)                   {}
func (r *recorder) Logf(string, ...any)          {}
