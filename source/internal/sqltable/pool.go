package sqltable

import (
	"context"
	"database/sql"
	"sync/atomic"

	"example.org/bridge/client/backoff"
)

// Pool is connections with one state of their sessions. It is safe for concurrent use.
type Pool struct {
	*sql.DB
	// slots bounds the statements that wait for one another.
	slots atomic.Pointer[chan struct{}]
}

// Resize has the pool keep so many connections for statements that Acquire lets pass, and others
// beside them. Connections above that are closed as their statements end.
func (p *Pool) Resize(readers, others int) {
	slots := make(chan struct{}, readers)
	p.slots.Store(&slots)
	p.SetMaxOpenConns(readers + others)
	p.SetMaxIdleConns(readers + others)
}

// Acquire waits until a statement may begin. No statement begins another one before its release, so
// that a pool of one connection serves all.
func (p *Pool) Acquire(ctx context.Context) (release func(), err error) {
	return backoff.Acquire(ctx, *p.slots.Load())
}
