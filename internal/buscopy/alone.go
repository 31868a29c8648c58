package buscopy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"example.org/bridge/client/backoff"
)

// A process of a share enters, by a key of its own, before its first publish: so another one of the
// share knows that there may be messages of it. ReadFormer, Enter and Alone are for processes that
// have joined a generation.

// ReadFormer notes who of the share had entered before this process. It is called before the
// process shuts out former ones and reads the bus, with turn when it is elected. The first call
// counts.
func (g *Generations) ReadFormer(ctx context.Context, turn bool) error {
	// As Alone reads, which may find those that were deleted.
	s, err := g.waitState(ctx, g.readNew)
	if err != nil {
		return err
	}
	entered := g.ofShare(&s)
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, looked := g.before[turn]; !looked {
		g.before[turn] = entered
	}
	return nil
}

// Enter puts the key of the process, whose epoch is durable, and returns what Permit does. Those
// of the processes before it go. One without shares puts none: it passes over nothing.
func (g *Generations) Enter(ctx context.Context, epoch uint64) error {
	if g.Joined() > 0 && g.opts.Share.One() {
		key := fmt.Sprintf("%s%d.%s", g.enteredPrefix(), epoch, g.token)
		put := func() error { return g.opts.Bucket.Put(ctx, key, []byte(g.opts.Host)) }
		if err := new(backoff.Backoff).Retry(ctx, put, g.waits); err != nil {
			return err
		}
		g.mu.Lock()
		g.own = key
		g.mu.Unlock()
		former := slices.DeleteFunc(g.known(), func(of string) bool { return epochOf(of) >= epoch })
		if len(former) > 0 {
			// What stays is known.
			_ = g.opts.Bucket.Delete(ctx, former)
		}
	}
	return g.Permit(ctx)
}

// Alone reports whether nobody else of the share has begun since this process did, by the number of
// shares or by another one: then the bus has no messages of its tables but its own, as of the call,
// beside those of former processes that were in flight.
func (g *Generations) Alone(ctx context.Context) (alone bool, err error) {
	s, err := g.readNew(ctx)
	if err != nil || s.generation != g.Joined() {
		return false, err
	}
	g.mu.Lock()
	own := g.own
	g.mu.Unlock()
	known := g.known()
	return own != "" && !slices.ContainsFunc(g.ofShare(&s), func(key string) bool {
		return key != own && (!slices.Contains(known, key) || epochOf(key) >= epochOf(own))
	}), nil
}

func (g *Generations) known() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if turn, elected := g.before[true]; elected {
		return slices.Clone(turn)
	}
	return slices.Clone(g.before[false])
}

// enteredPrefix is that of the keys of the processes of the share: an epoch and a token follow, as
// two processes can have one epoch.
func (g *Generations) enteredPrefix() string {
	return fmt.Sprintf("%se%d.%d.", g.begin, g.Joined(), g.opts.Share.Index)
}

func (g *Generations) ofShare(s *state) []string {
	prefix := g.enteredPrefix()
	return slices.DeleteFunc(slices.Clone(s.entered), func(key string) bool { return !strings.HasPrefix(key, prefix) })
}

// epochOf returns the epoch in a key; one that is none is that of nobody.
func epochOf(key string) uint64 {
	parts := strings.Split(key, ".")
	epoch, _ := strconv.ParseUint(parts[max(0, len(parts)-2)], 10, 64)
	return epoch
}
