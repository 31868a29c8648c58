package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/internal/natskv"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/standby"
)

// Bucket is the name of the bucket of all groups.
const Bucket = "bridge-standby"

// Grant says what a login needs to be a member of a group.
const Grant = "let the login publish to $KV." + Bucket + ".>, $JS.API.STREAM.INFO.KV_" + Bucket + ", $JS.API.STREAM.MSG.GET.KV_" + Bucket +
	" and $JS.API.DIRECT.GET.KV_" + Bucket + ".>, and either to $JS.API.STREAM.CREATE.KV_" + Bucket + " or have an administrator create the bucket: nats kv add " + Bucket + " --replicas 3"

// Options of a Register.
type Options struct {
	// Connection says how to reach the servers.
	Connection *server.Options
	// Key names the entry with the work of the group; those that wait share Key.waiting.
	Key string
	// Missing has a bucket that is missing be an error, jetstream.ErrBucketNotFound, instead of
	// making it.
	Missing bool
	// Replicas of a bucket that is made. 0 means three, or one where there are fewer servers.
	Replicas int
	// Timeout bounds each request.
	Timeout time.Duration
}

// Register is a standby.Register. It connects at the first request. It serves one goroutine.
type Register struct {
	opts    Options
	session *server.Session
	kv      jetstream.KeyValue
}

var _ standby.Register = (*Register)(nil)

// New returns a Register.
func New(o Options) *Register { return &Register{opts: o} }

// Get implements standby.Register.
func (r *Register) Get(ctx context.Context, name standby.Entry) (text []byte, revision uint64, err error) {
	err = r.do(ctx, func(ctx context.Context) error {
		entry, err := r.kv.Get(ctx, r.key(name))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil
		}
		if err == nil {
			text, revision = entry.Value(), entry.Revision()
		}
		return err
	})
	return text, revision, err
}

// Put implements standby.Register.
func (r *Register) Put(ctx context.Context, name standby.Entry, text []byte, revision uint64) (now uint64, err error) {
	err = r.do(ctx, func(ctx context.Context) error {
		var err error
		if revision == 0 {
			now, err = r.kv.Create(ctx, r.key(name), text)
		} else {
			now, err = r.kv.Update(ctx, r.key(name), text, revision)
		}
		if errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return standby.ErrConflict
		}
		return err
	})
	return now, err
}

func (r *Register) key(name standby.Entry) string {
	if name == standby.Work {
		return r.opts.Key
	}
	return r.opts.Key + "." + string(name)
}

// Check implements standby.Register: it reads the entry, and tries to replace one of a revision
// that no entry has. Where there is no bucket, whether it may be made does not show.
func (r *Register) Check(ctx context.Context) error {
	r.opts.Missing = true
	_, _, err := r.Get(ctx, standby.Work)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err = r.Put(ctx, standby.Work, nil, math.MaxInt64); errors.Is(err, standby.ErrConflict) {
		return nil
	}
	return err
}

// Close implements standby.Register.
func (r *Register) Close() error {
	if r.session != nil {
		r.session.NC.Close()
	}
	r.session, r.kv = nil, nil
	return nil
}

// do does one request over a connection that works as far as is known, and drops it behind a fault:
// it may be half open.
func (r *Register) do(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.opts.Timeout, errors.New("the servers do not answer"))
	defer cancel()
	err := r.open(ctx)
	if err == nil {
		err = request(ctx)
	}
	if err == nil || errors.Is(err, standby.ErrConflict) {
		return err
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	err = r.explain(err)
	return errors.Join(err, r.Close())
}

func (r *Register) open(ctx context.Context) error {
	if r.kv != nil && r.session.Alive() {
		return nil
	}
	err := r.Close()
	if err == nil {
		r.session, err = r.opts.Connection.Connect(ctx, r.opts.Connection.URLs)
	}
	if err != nil {
		return err
	}
	js := r.session.JS
	r.kv, err = js.KeyValue(ctx, Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) && !r.opts.Missing {
		_, err = natskv.Create(ctx, js, natskv.Bucket{Name: Bucket, Description: "who works of each standby group of bridge", Replicas: r.opts.Replicas})
		if err == nil || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			r.kv, err = js.KeyValue(ctx, Bucket)
		}
	}
	return err
}

func (r *Register) explain(err error) error {
	var denied error
	if r.session != nil {
		denied = r.session.Denied(time.Time{})
	}
	switch {
	case denied != nil:
		return fmt.Errorf("%s: %w", Grant, denied)
	case natskv.FewerServers(err), natskv.NoPeers(err):
		return option.Errorf("standby bucket %s: too few servers are there, or have the storage, for the replicas of %s: %w", Bucket, option.NATSStreamReplicas, err)
	}
	return fmt.Errorf("standby bucket %s: %w", Bucket, err)
}
