package sqltable

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"

	"example.org/bridge/client/backoff"
)

// Pool is connections with one state of their sessions. It is safe for concurrent use.
type Pool struct {
	*sql.DB
	// Explain adds to the error of a connect what a person has to know.
	Explain func(error) error
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

// Use runs fn on a connection of the driver, and closes that if fn fails, for there may be anything
// on the wire, unless it is unbroken by the error. What the end of ctx has broken is an error with
// the cause of that.
func (p *Pool) Use(ctx context.Context, unbroken func(error) bool, fn func(raw any) error) error {
	pooled, err := p.Conn(ctx)
	if err != nil {
		return Cause(ctx, p.Explain(err))
	}
	// Raw has told the pool already what to do with the connection.
	defer func() { _ = pooled.Close() }()
	var failed error
	err = pooled.Raw(func(raw any) error {
		if failed = fn(raw); failed != nil && !unbroken(failed) {
			return driver.ErrBadConn
		}
		return nil
	})
	switch {
	case failed == nil:
		return err
	case unbroken(failed):
		return failed
	}
	return Cause(ctx, failed)
}

// Cause replaces an error that the end of ctx caused by its cause.
func Cause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}
