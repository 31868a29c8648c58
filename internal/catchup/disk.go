package catchup

import (
	"context"
	"errors"
	"time"

	"bridge/checkpoint/store"
	"bridge/internal/backoff"
	"bridge/internal/outage"
)

// The pauses of Committer.Run. What reads nothing back relies on the store alone.
const (
	syncEvery     = time.Minute
	syncUnread    = time.Second
	syncAtTheEnd  = 10 * time.Second
	outagePause   = 5 * time.Second
	firstOfOutage = 100 * time.Millisecond
)

// storeName is what the outage log calls the store as a whole.
const storeName = "checkpoint"

// disk tells the outage log when the store takes no writes, and when it does again.
type disk struct{ faults *outage.Log }

// retry calls write until it succeeds, fails otherwise than by an outage, or ctx ends.
func (d *disk) retry(ctx context.Context, write func() error) error {
	pause := backoff.Backoff{First: firstOfOutage, Max: outagePause}
	for failed := false; ; failed = true {
		err := write()
		if !errors.Is(err, store.ErrOutage) {
			if failed && err == nil {
				d.faults.OK(storeName)
			}
			return err
		}
		d.faults.Fail(storeName, err)
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

// Run makes what was applied durable about once a minute and at the end: each second where nothing
// can be read back, and every 5 s while the disk takes no writes. It returns nil when ctx ends, and
// the error of a store that is broken, at once where damage was seen.
func (c *Committer) Run(ctx context.Context) error {
	for pause := c.interval(); c.pause(ctx, pause) == nil; {
		durable, err := c.syncOnce(ctx)
		if err != nil {
			return err
		}
		if pause = c.interval(); !durable {
			pause = min(pause, outagePause)
		}
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), syncAtTheEnd, store.ErrOutage)
	defer cancel()
	_, err := c.syncOnce(ctx)
	return err
}

// pause waits until the next sync is due.
func (c *Committer) pause(ctx context.Context, d time.Duration) error {
	due := time.NewTimer(d)
	defer due.Stop()
	select {
	case <-due.C:
	case <-c.store.Damaged():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// interval returns the time between two syncs.
func (c *Committer) interval() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.registrations.inForce) == 0 {
		return syncUnread
	}
	return syncEvery
}

// syncOnce reports whether what was applied is durable. That the disk takes no writes is no error:
// the store keeps what was applied.
func (c *Committer) syncOnce(ctx context.Context) (durable bool, err error) {
	switch err := c.store.Sync(ctx); {
	case err == nil:
		c.disk.faults.OK(storeName)
		c.durable.Store(true)
		return true, nil
	case errors.Is(err, store.ErrOutage):
		c.disk.faults.Fail(storeName, err)
	case ctx.Err() == nil:
		return false, err
	}
	return false, nil
}
