package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/pebble"
	"example.org/bridge/event"
	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/share"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// copiesDependency is what outages of the copies of progress are named.
const copiesDependency = "progress on the bus"

// openBucket opens what has the copies of progress, with connections of its own. giveUp bounds the
// wait for a bus that does not answer; 0 waits for ever.
func openBucket(cfg *config.Config, giveUp time.Duration) (buscopy.Bucket, error) {
	bucket, _, err := shared(cfg).Progress(cfg.CheckpointTopic, giveUp, useOf(cfg, nil))
	return bucket, err
}

func keeperOptions(cfg *config.Config, bucket buscopy.Bucket, logger *slog.Logger) buscopy.Options {
	o := buscopy.Options{Bucket: bucket, Domain: cfg.DomainID, Log: logger, IsCommand: stream.IsCommand}
	if b, ok := bucket.(*buscopy.Messages); ok {
		o.Ready = b.Ready
	}
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		o.Streams = append(o.Streams, buscopy.Stream{Name: s.Name, Release: s.Kind == "release", Placed: func(shard string) buscopy.Placed {
			if table, is := stream.RepublishedTable(shard); is {
				return buscopy.Placed{Table: s.Placed(table), Any: table == stream.ListName && s.Placed("t") != ""}
			}
			paused, isPause := stream.PausedTable(shard)
			if table := s.Placed(paused); isPause {
				return buscopy.Placed{Table: table, Any: paused == "" && s.Placed("t") != ""}
			}
			table := s.Placed(strings.TrimPrefix(shard, leftPrefix))
			return buscopy.Placed{Table: table, All: table != "" && source.IsPattern(shard)}
		}})
	}
	return o
}

func slotOf(cfg *config.Config, g *buscopy.Generations) func() buscopy.Slot {
	return func() buscopy.Slot {
		generation := g.Joined()
		if generation == 0 {
			return buscopy.Slot{}
		}
		return buscopy.Slot{Generation: generation, Share: cfg.Share.Share}
	}
}

func (a *App) openCopies() error {
	cfg := a.opts.Config
	if cfg.CheckpointTopic == "" || a.opts.dry {
		return nil
	}
	// What it waits for is copiesDependency, in the log once.
	bucket, err := openBucket(cfg, 0)
	if err != nil {
		return err
	}
	a.closers = append(a.closers, bucket.Close)
	o := keeperOptions(cfg, bucket, a.logger)
	o.Still = a.committer.Still
	o.Epoch = func(stream string) uint64 { return a.recovery.EpochOf(stream) }
	o.Fault = func(err error) { a.note(copiesDependency, err) }
	turn := a.turn()
	g := buscopy.GenerationsOptions{Bucket: bucket, Domain: cfg.DomainID, Share: cfg.Share.Share, Waits: func(err error) { a.note(sharesDependency, err) }}
	g.May = func() bool {
		select {
		case <-turn:
			return true
		default:
			return turn == nil
		}
	}
	if g.Host, _ = os.Hostname(); g.Host == "" {
		g.Host = "unknown"
	}
	if cfg.Sink.ExactlyOnce {
		g.ShutOut = a.shutOut
	}
	a.generations = buscopy.NewGenerations(g)
	if !cfg.Sink.ExactlyOnce && !a.opts.inside {
		// With exactly-once the bus shuts out a process of a former number. A command works whether
		// or not others hear of it.
		a.heard = a.generations.Heard
	}
	o.Slot, o.Permit = slotOf(cfg, a.generations), a.generations.Permit
	a.copies = buscopy.NewKeeper(o)
	return nil
}

func copyOf(ctx context.Context, k *buscopy.Keeper, cfg *config.Config, s *config.Stream) (stream.Copy, error) {
	c, found, err := k.Load(ctx, s.Name)
	if err != nil || !found {
		return stream.Copy{}, err
	}
	copied := stream.Copy{Registrations: c.Registrations, Epoch: c.Epoch, Forgets: func(shard string) (may, table bool) {
		name, left := strings.CutPrefix(shard, leftPrefix)
		may = !source.IsPattern(name) && !stream.IsCommand(shard) && cfg.Matched(s, name) && (c.Lacks == nil || c.Lacks(shard))
		return may, may && !left
	}}
	image := store.Image{Shards: make(map[store.Key]store.Progress)}
	for i := range c.Shards {
		one := &c.Shards[i]
		key := store.Key{Stream: s.Name, Shard: one.Name}
		image.Shards[key] = one.Progress
		copied.Shards = append(copied.Shards, store.ShardChange{Key: key, Progress: &one.Progress, Parts: one.Parts})
	}
	// A process without a folder has no table of a pattern yet.
	tables, _ := matchedTables(cfg, s, &image)
	copied.IgnoreBelow = stream.IgnoreBelow(&image, s.Name, append(tables, s.Tables...))
	return copied, nil
}

// Copies are those of the progress on the bus, for a command.
type Copies struct {
	cfg    *config.Config
	keeper *buscopy.Keeper
	bucket buscopy.Bucket
}

// OpenCopies puts into a store what it lacks of the copies on the bus, where cfg has progress kept
// there. A process that runs must not use the store.
func OpenCopies(ctx context.Context, cfg *config.Config, s store.Store, logger *slog.Logger) (_ *Copies, err error) {
	cfg = config.OfShare(cfg)
	bucket, err := openBucket(cfg, driver.GiveUpAfter)
	if err != nil {
		return nil, err
	}
	var last error
	ctx, cancel := context.WithTimeout(ctx, driver.GiveUpAfter)
	defer cancel()
	o := keeperOptions(cfg, bucket, logger)
	o.Still = func(_ context.Context, do func(store.Store) error) error { return do(s) }
	o.Epoch = func(string) uint64 { return stream.NewEpoch(0, time.Now()).Number() }
	o.Fault = func(err error) { last = errors.Join(err) }
	generations := buscopy.NewGenerations(buscopy.GenerationsOptions{Bucket: bucket, Domain: cfg.DomainID, Share: cfg.Share.Share, Waits: o.Fault})
	o.Slot = slotOf(cfg, generations)
	c, what := &Copies{cfg, buscopy.NewKeeper(o), bucket}, "number of shares"
	err = generations.Last(ctx)
	for i := 0; i < len(cfg.Streams) && err == nil; i++ {
		what = "progress"
		err = c.restore(ctx, s, &cfg.Streams[i])
	}
	if err == nil {
		return c, nil
	}
	if ctx.Err() != nil && last != nil {
		err = last
	}
	return nil, errors.Join(fmt.Errorf("read the %s on the bus: %w", what, err), bucket.Close())
}

// scratch is a store in a temporary folder, which Close removes.
type scratch struct {
	store.Store
	dir string
}

// Close closes the store and removes it.
func (s scratch) Close() error { return errors.Join(s.Store.Close(), os.RemoveAll(s.dir)) }

// LoadCopies returns a store in a temporary folder that has what the bus has of progress.
func LoadCopies(ctx context.Context, cfg *config.Config, logger *slog.Logger) (store.Store, error) {
	dir, err := os.MkdirTemp("", "bridge-")
	if err != nil {
		return nil, err
	}
	opened, err := pebble.Open(ctx, dir, pebble.Options{Log: logger})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := scratch{opened, dir}
	c, err := OpenCopies(ctx, cfg, s, logger)
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// restore puts into a store what it lacks of a stream.
func (c *Copies) restore(ctx context.Context, s store.Store, name *config.Stream) error {
	copied, err := copyOf(ctx, c.keeper, c.cfg, name)
	if err != nil {
		return err
	}
	image, err := s.Load(ctx)
	if err != nil {
		return err
	}
	last := uint32(0)
	for i := range image.Registrations {
		last = max(last, image.Registrations[i].Number)
	}
	if err := copied.Compare(ctx, s, &image, name.Kind == event.Release); err != nil {
		return err
	}
	b := stream.Lacking(&image, name.Name, &copied, func() uint32 { last++; return last })
	// The epoch of a command is above this one.
	b.Epoch = max(image.Epoch, copied.Epoch)
	return s.Apply(ctx, b)
}

// Write writes the progress of a stream to the bus, in place of all that is there.
func (c *Copies) Write(ctx context.Context, stream string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, driver.GiveUpAfter, fmt.Errorf("the bus did not take it in %s", driver.GiveUpAfter))
	defer cancel()
	return c.keeper.Write(ctx, stream)
}

// Close releases connections.
func (c *Copies) Close() error { return c.bucket.Close() }

// sharesDependency is what the wait for the number of shares is named.
const sharesDependency = "number of shares"

// MakeFolder makes the folder that has those of the shares, as a store makes its own, and one in
// the temporary directory. There others could have made it before, to have bridge believe what they
// put there.
func MakeFolder(cfg *config.Config) error {
	path := cfg.CheckpointPath
	if cfg.Share.One() {
		path = filepath.Dir(path)
	} else if !cfg.Temporary {
		return nil
	}
	err := os.Mkdir(path, 0o700)
	if err == nil || errors.Is(err, fs.ErrExist) {
		info, err := os.Lstat(path)
		if !cfg.Temporary || err != nil {
			return err
		}
		if owner, _ := info.Sys().(*syscall.Stat_t); !info.IsDir() || info.Mode().Perm()&0o077 != 0 || int(owner.Uid) != os.Geteuid() {
			return option.Errorf("the folder of the checkpoint, %s, is not a folder of this user that is closed to others: type commands as the user of bridge; if that has not made it, remove it, or name another one in %s, as in bus:///var/lib/bridge/bridge.db",
				path, option.CheckpointURL)
		}
		return nil
	}
	return option.Errorf("make the folder of the checkpoint: %w: create the one above it, or set %s to a folder elsewhere", err, option.CheckpointURL)
}

// shutOut ends what a process of another number of shares may still publish with exactly-once: it
// takes over the transactional id, or the claim, of that share.
func (a *App) shutOut(ctx context.Context, of share.Share) (err error) {
	cfg := a.opts.Config
	u := useOf(cfg, a.logger)
	u.Share = of.Name()
	bus, err := cfg.Sink.Driver.Open(u)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bus.Close()) }()
	other, able := bus.(sink.Transactional)
	if !able {
		return fmt.Errorf("the sink %s: has no transactions", cfg.Sink.Scheme)
	}
	return other.Fence(ctx)
}
