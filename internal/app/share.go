package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/share"
	"example.org/bridge/sink"
)

// sharesDependency is what the wait for the number of shares is named.
const sharesDependency = "number of shares"

// generationsOptions are those of the process of an app.
func generationsOptions(a *App, bucket buscopy.Bucket) buscopy.GenerationsOptions {
	cfg := a.opts.Config
	o := buscopy.GenerationsOptions{Bucket: bucket, Domain: cfg.DomainID, Share: cfg.Share.Share, May: a.isTurn}
	o.Waits = func(err error) { a.note(sharesDependency, err) }
	if o.Host, _ = os.Hostname(); o.Host == "" {
		o.Host = "unknown"
	}
	if cfg.Sink.ExactlyOnce {
		o.ShutOut = a.shutOut
	}
	return o
}

// registererOf returns what gives all metrics the label share, where there are shares.
func registererOf(cfg *config.Config, registry prometheus.Registerer) prometheus.Registerer {
	if !cfg.Share.One() {
		return registry
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{"share": strconv.Itoa(cfg.Share.Index)}, registry)
}

// MakeFolder makes the folder that has those of the shares, as a store makes its own.
func MakeFolder(cfg *config.Config) error {
	if !cfg.Share.One() {
		return nil
	}
	err := os.Mkdir(filepath.Dir(cfg.CheckpointPath), 0o700)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return option.Errorf("make the folder of the checkpoint: %w: create the one above it, or set %s to a folder elsewhere", err, option.CheckpointURL)
}

// isTurn reports whether this process is to publish.
func (k *kept) isTurn() bool {
	turn := k.turn()
	if turn == nil {
		return true
	}
	select {
	case <-turn:
		return true
	default:
		return false
	}
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
