package standbytest

import (
	"context"
	"errors"
	"sync"
	"time"

	"example.org/bridge/internal/standby"
)

var errCut = errors.New("cut off")

// Entries are what several registers share. The zero Entries are empty.
type Entries struct {
	mu  sync.Mutex
	all map[standby.Entry]entry
}

type entry struct {
	text     []byte
	revision uint64
}

// Register is a standby.Register in memory: one member's way to the Entries.
type Register struct {
	entries *Entries

	mu  sync.Mutex
	cut bool
	// deaf: what is written arrives, and its answer does not.
	deaf bool
}

var _ standby.Register = (*Register)(nil)

// NewRegister returns a way to the entries.
func NewRegister(e *Entries) *Register { return &Register{entries: e} }

// Cut has calls wait for the end of their context, or not any more. deaf lets writes arrive.
func (r *Register) Cut(cut, deaf bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut, r.deaf = cut, deaf
}

func (r *Register) state() (cut, deaf bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cut, r.deaf
}

const silentFor = time.Second

func waitSilent(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(silentFor):
	}
	return errCut
}

// Get implements standby.Register.
func (r *Register) Get(ctx context.Context, name standby.Entry) ([]byte, uint64, error) {
	if cut, _ := r.state(); cut {
		return nil, 0, waitSilent(ctx)
	}
	r.entries.mu.Lock()
	defer r.entries.mu.Unlock()
	e := r.entries.all[name]
	return e.text, e.revision, nil
}

// Put implements standby.Register.
func (r *Register) Put(ctx context.Context, name standby.Entry, text []byte, revision uint64) (uint64, error) {
	cut, deaf := r.state()
	if cut && !deaf {
		return 0, waitSilent(ctx)
	}
	now, err := r.entries.put(name, text, revision)
	if cut {
		return 0, waitSilent(ctx)
	}
	return now, err
}

func (e *Entries) put(name standby.Entry, text []byte, revision uint64) (uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if revision != e.all[name].revision {
		return 0, standby.ErrConflict
	}
	if e.all == nil {
		e.all = make(map[standby.Entry]entry)
	}
	e.all[name] = entry{text, revision + 1}
	return revision + 1, nil
}

// Check implements standby.Register.
func (*Register) Check(context.Context) error { return nil }

// Close implements standby.Register.
func (*Register) Close() error { return nil }
