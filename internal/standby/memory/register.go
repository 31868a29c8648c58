package memory

import (
	"context"
	"errors"
	"sync"
	"time"

	"bridge/internal/standby"
)

// ErrCut is returned by a Register that is cut off.
var ErrCut = errors.New("cut off")

// Entry is what several registers share. The zero Entry is empty.
type Entry struct {
	mu       sync.Mutex
	text     []byte
	revision uint64
}

// Register is one member's way to an Entry.
type Register struct {
	entry *Entry

	mu  sync.Mutex
	cut bool
	// deaf: what is written arrives, and its answer does not.
	deaf bool
}

var _ standby.Register = (*Register)(nil)

// New returns a way to an entry.
func New(e *Entry) *Register { return &Register{entry: e} }

// Cut has calls wait for the end of their context, or not any more. deaf lets writes arrive.
func (r *Register) Cut(cut, deaf bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut, r.deaf = cut, deaf
}

// state returns what Cut has set.
func (r *Register) state() (cut, deaf bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cut, r.deaf
}

// silentFor is how long a call waits for an answer that does not come.
const silentFor = time.Second

func silence(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(silentFor):
	}
	return ErrCut
}

// Get implements standby.Register.
func (r *Register) Get(ctx context.Context) ([]byte, uint64, error) {
	if cut, _ := r.state(); cut {
		return nil, 0, silence(ctx)
	}
	r.entry.mu.Lock()
	defer r.entry.mu.Unlock()
	return r.entry.text, r.entry.revision, nil
}

// Put implements standby.Register.
func (r *Register) Put(ctx context.Context, text []byte, revision uint64) (uint64, error) {
	cut, deaf := r.state()
	if cut && !deaf {
		return 0, silence(ctx)
	}
	now, err := r.entry.put(text, revision)
	if cut {
		return 0, silence(ctx)
	}
	return now, err
}

func (e *Entry) put(text []byte, revision uint64) (uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if revision != e.revision {
		return 0, standby.ErrConflict
	}
	e.text, e.revision = text, e.revision+1
	return e.revision, nil
}

// Close implements standby.Register.
func (*Register) Close() error { return nil }
