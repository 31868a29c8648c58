package bench

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// screen shows how the run goes on, one line for each thing that is done and one every few seconds
// for what takes long. It is safe for concurrent use.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	began time.Time
	last  time.Time
}

// every is how often a long work says how far it is.
const every = 5 * time.Second

func newScreen(out io.Writer, began time.Time) *screen { return &screen{out: out, began: began} }

// say writes a line.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(format, args...)
}

// far writes a line about a work of whole parts, of which done are done, unless the last line is
// younger than a few seconds.
func (s *screen) far(what string, done, whole int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last) >= every {
		s.write("%s: %d %%", what, done*100/max(1, whole))
	}
}

func (s *screen) write(format string, args ...any) {
	s.last = time.Now()
	passed := s.last.Sub(s.began)
	fmt.Fprintf(s.out, "[%02d:%02d] %s\n", int(passed.Minutes()), int(passed.Seconds())%60, fmt.Sprintf(format, args...))
}
