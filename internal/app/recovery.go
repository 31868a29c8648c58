package app

import (
	"context"

	"bridge/internal/catchup"
	"bridge/internal/panics"
	"bridge/sink"
)

// newRecovery returns what reads the bus, where that can be read back (rule 24), and stops the
// shards of streams that must not publish any more.
func (a *App) newRecovery() *catchup.CatchUp {
	cfg, p, streams := a.opts.Config, &a.parts, a.streams
	o := catchup.Options{
		Reader: p.reader, Committer: p.committer, Image: p.image, Domain: cfg.DomainID, Log: p.logger, Turn: a.turn(),
		Superseded: func(err error) {
			for _, s := range streams {
				s.stop(err)
			}
			// It is called once.
			a.superseded <- err
		},
		Stopped: func(name string, err error) {
			for _, s := range streams {
				if s.Name == name {
					s.stop(err)
				}
			}
		},
	}
	if bus, ok := p.sink.(sink.Transactional); ok && cfg.Sink.ExactlyOnce {
		o.Fence = bus.Fence
	}
	if p.copies != nil {
		o.Copy = func(ctx context.Context, stream string) (catchup.Copy, error) {
			copied, _, err := copyOf(ctx, p.copies, cfg.Stream(stream))
			return copied, err
		}
	}
	if p.reader != nil {
		first, atTurn := a.newLineage(), a.newLineage()
		o.Confirm = func(ctx context.Context, stream string, turn bool) error {
			check := first
			if turn {
				check = atTurn
			}
			err := check.Stream(ctx, stream)
			if panics.Is(err) {
				// It shows nothing, and must not end the other streams.
				a.logger.Error("the tables of the stream could not be compared with the bus", append(panics.LogArgs(err), "stream", stream)...)
				return nil
			}
			return err
		}
	}
	for _, s := range streams {
		o.Streams = append(o.Streams, s.catchUp(cfg, p))
	}
	return catchup.New(o)
}
