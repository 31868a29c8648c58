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
	var entered []string
	err := g.untilRead(ctx, func(s *state) { entered = g.ofShare(s) })
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, looked := g.before[turn]; !looked && err == nil {
		g.before[turn] = entered
	}
	return err
}

// Enter puts the key of the process, whose epoch is durable, and returns what Permit does. Those
// of the processes before it go.
func (g *Generations) Enter(ctx context.Context, epoch uint64) error {
	if g.Joined() > 0 {
		key := g.enteredKey(strconv.FormatUint(epoch, 10))
		var pause backoff.Backoff
		err := pause.Retry(ctx, func() error { return g.opts.Bucket.Put(ctx, key, []byte(g.opts.Host)) }, func(err error) bool { g.opts.Waits(err); return true })
		if err != nil {
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

// known are those who had entered before.
func (g *Generations) known() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if turn, elected := g.before[true]; elected {
		return slices.Clone(turn)
	}
	return slices.Clone(g.before[false])
}

// enteredKey is the key of a process of the share by its epoch.
func (g *Generations) enteredKey(epoch string) string {
	return fmt.Sprintf("%se%d.%d.%s", g.begin, g.Joined(), g.opts.Share.Index, epoch)
}

func (g *Generations) ofShare(s *state) []string {
	return slices.DeleteFunc(slices.Clone(s.entered), func(key string) bool { return !strings.HasPrefix(key, g.enteredKey("")) })
}

// epochOf returns the epoch in a key; one that is none is that of nobody.
func epochOf(key string) uint64 {
	epoch, _ := strconv.ParseUint(key[strings.LastIndex(key, ".")+1:], 10, 64)
	return epoch
}

// untilRead calls do with the state, once the bus tells it.
func (g *Generations) untilRead(ctx context.Context, do func(*state)) error {
	var pause backoff.Backoff
	return pause.Retry(ctx, func() error {
		s, err := g.read(ctx)
		if err == nil {
			g.opts.Waits(nil)
			do(&s)
		}
		return err
	}, func(err error) bool { g.opts.Waits(err); return true })
}
