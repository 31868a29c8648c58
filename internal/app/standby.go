package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/stream"
)

// standbyDependency is what outages of the election are named.
const standbyDependency = "standby group"

func openElector(cfg *config.Config, logger *slog.Logger) (standby.Elector, error) {
	return shared(cfg).Elector(groupOf(cfg), silence(cfg), useOf(cfg, logger))
}

// silence returns how long the process that works may not be heard of. The rest of the timeout is
// for the next one to be elected and to begin.
func silence(cfg *config.Config) time.Duration { return cfg.Standby.Timeout * 9 / 10 }

func groupOf(cfg *config.Config) string {
	return fmt.Sprintf("%s.%d", cfg.Standby.Group, cfg.Share.Index)
}

func standbyGroup(cfg *config.Config) string {
	return shared(cfg).Group(groupOf(cfg))
}

func (k *kept) openStandby(cfg *config.Config, logger *slog.Logger) error {
	if cfg.Standby.Group == "" {
		return nil
	}
	elector, err := openElector(cfg, logger)
	if err != nil {
		return err
	}
	k.closing = append(k.closing, elector.Close)
	id := make([]byte, 4)
	// It never returns an error.
	_, _ = rand.Read(id)
	host, err := os.Hostname()
	if err != nil {
		logger.Debug("the name of this host is not known", "error", err)
	}
	k.member = standby.New(standby.Options{
		Group: cfg.Standby.Group, Elector: elector, Member: hex.EncodeToString(id), Host: host, Settings: cfg.Standby.Settings,
		Timeout: silence(cfg), Ready: func() bool { return followed(k.now.Load().recovery.Progress()) }, Log: logger,
		Fault: func(err error) { k.now.Load().note(standbyDependency, err) },
	})
	return nil
}

// followed reports whether all streams have read what the bus holds: another process is to work
// rather than one with a stream that has stopped.
func followed(p stream.CatchUpProgress) bool {
	for i := range p.Streams {
		if s := &p.Streams[i]; !s.Ready && !s.Following {
			return false
		}
	}
	return true
}

// turn is closed when this process is to publish. It is nil where the process works alone.
func (k *kept) turn() <-chan struct{} {
	if k.member == nil {
		return nil
	}
	return k.member.Elected()
}

// elected calls do, and takes part in the election until do has ended: then another process may
// work. When this one must not publish any more, its sink is closed and the context of do ends: the
// process has to be restarted.
func (k *kept) elected(ctx context.Context, do func(context.Context) error) error {
	if k.member == nil {
		return do(ctx)
	}
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	elects, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var electing errgroup.Group
	electing.Go(func() error {
		err := k.elect(elects)
		if err != nil {
			fail(err)
		}
		return err
	})
	err := do(running)
	end()
	return errors.Join(err, electing.Wait())
}

// elect takes part in the election until ctx ends, and then lets another process work.
func (k *kept) elect(ctx context.Context) error {
	taking, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	var watch errgroup.Group
	watch.Go(func() error {
		select {
		case err := <-k.superseded:
			leave(err)
		case <-taking.Done():
		}
		return nil
	})
	err := k.member.Run(taking)
	leave(nil)
	if err = errors.Join(err, watch.Wait()); err == nil && ctx.Err() == nil {
		// Somebody publishes who has not been elected here: another election decides.
		err = fmt.Errorf("%w: %w", standby.ErrLost, context.Cause(taking))
	}
	if err == nil {
		return nil
	}
	a := k.now.Load()
	a.logger.Error("this process stops: another one may work now", "group", a.opts.Config.Standby.Group, "error", err)
	return errors.Join(err, a.sink.Close())
}

// advertised returns where other hosts reach the HTTP server that listens on addr: there, or where
// it listens on all addresses of the host, at the one that the host reaches the bus from.
func advertised(ctx context.Context, addr net.Addr, bus []string) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host = localIP(ctx, bus); host == "" {
			return ""
		}
	}
	return net.JoinHostPort(host, port)
}

const lookupLimit = 2 * time.Second

// localIP returns the address from which this host reaches one of hosts, each host:port, else the
// one from which it reaches other networks. It sends nothing but lookups of names.
func localIP(ctx context.Context, hosts []string) string {
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	// Addresses for documentation, which the default route leads to.
	for _, host := range append(hosts[:len(hosts):len(hosts)], "192.0.2.1:9", "[2001:db8::1]:9") {
		conn, err := new(net.Dialer).DialContext(ctx, "udp", host)
		if err != nil {
			continue
		}
		local := conn.LocalAddr().(*net.UDPAddr).IP
		// Nothing was sent that could be lost.
		_ = conn.Close()
		return local.String()
	}
	return ""
}

func onlyOwnHost(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err != nil || host == "localhost" || net.ParseIP(host).IsLoopback()
}
