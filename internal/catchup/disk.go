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
// can be read back. It returns nil when ctx ends, and the error of a store that is broken.
func (c *Committer) Run(ctx context.Context) error {
	for {
		if backoff.Pause(ctx, c.interval()) != nil {
			break
		}
		if err := c.syncOnce(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), syncAtTheEnd, store.ErrOutage)
	defer cancel()
	return c.syncOnce(ctx)
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

// syncOnce returns nil also while the disk takes no writes: the store keeps what was applied.
func (c *Committer) syncOnce(ctx context.Context) error {
	switch err := c.store.Sync(ctx); {
	case err == nil:
		c.disk.faults.OK(storeName)
	case errors.Is(err, store.ErrOutage):
		c.disk.faults.Fail(storeName, err)
	case ctx.Err() == nil:
		return err
	}
	return nil
}
