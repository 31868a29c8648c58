package jetstream

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"example.org/bridge/client/bus"
	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/internal/natskv"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
)

// Connection says how to reach NATS, and what is read.
type Connection = server.Options

// Options configure a sink. Only URLs or InProcess is required.
type Options struct {
	// Connection has Stream, which takes every message; empty: each message goes to the stream that
	// takes its destination as a subject. Readable are the subjects of Published, and others that
	// were published to once. Name defaults to "bridge", Readable to Published.
	Connection
	// CreateStream has Stream created with Subjects and Keeps when it is missing. An existing
	// stream is used as it is.
	CreateStream bool
	// Keeps says how a stream that is created keeps messages. Inspect compares it with one that is
	// there.
	Keeps Keeping
	// Bucket has Stream and Subjects be those of a KV bucket, of which Keeps.Replicas counts.
	Bucket string
	// Subjects are those of a stream that is created; wildcards are fine.
	Subjects []string
	// Published are the subjects that messages will have, as exactly as that is known; wildcards
	// are fine. Inspect looks for the streams that take them. Defaults to Subjects.
	Published []string

	// Origin is what the messages are of. Inspect looks for events of other domains that may have
	// the same ids. Optional.
	Origin Origin

	// Claim is a subject of Stream for the claims of processes that publish there. With it the sink
	// is a [sink.Transactional]: it publishes in atomic batches, which need nats-server 2.15 and a
	// stream with allow_atomic, and the process that has claimed the stream last is the one that
	// publishes. It needs Stream. A stream that is created takes Claim, too. Optional.
	Claim string

	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Fault is called for every transient fault; its TP is "nats" or the stream. Optional.
	Fault sink.Fault
	// Session is called with a stream when sending to it begins over a new connection, goes on
	// after a fault, or finds that it was created again: another server, or one that was restarted,
	// may have other messages. It must not block. Optional.
	Session func(stream string)

	// Uncompactable says of subjects why a limit of messages of each would lose events. Optional.
	Uncompactable map[string]string

	// Windows has the duplicate window of each stream that was published to, which the log warns of
	// when it has become too short: for sinks that are opened one after the other. Optional.
	Windows *sync.Map

	// renewEvery is how often it is looked whether retention may soon remove the claim: for tests.
	renewEvery time.Duration
}

// Origin is what messages are of: a domain, and some streams of bridge.
type Origin struct {
	Domain  string
	Streams []string
}

// withDefaults checks o and fills in what is not set. An error names no secret.
func (o Options) withDefaults() (Options, error) {
	if o.Bucket != "" {
		o.Stream, o.Subjects = natskv.Stream(o.Bucket), []string{natskv.Subjects(o.Bucket)}
	}
	if err := o.check(); err != nil {
		return o, err
	}
	o.Name = cmp.Or(o.Name, "bridge")
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Windows = cmp.Or(o.Windows, new(sync.Map))
	o.renewEvery = cmp.Or(o.renewEvery, renewEvery)
	if o.Published == nil {
		o.Published = o.Subjects
	}
	if o.Claim != "" && !bus.CoversAny(o.Subjects, o.Claim) {
		o.Subjects = append(slices.Clone(o.Subjects), o.Claim)
	}
	if o.Readable == nil {
		o.Readable = o.Published
	}
	if o.Session == nil {
		o.Session = func(string) {}
	}
	return o, nil
}

func (o *Options) check() error {
	errs := o.Connection.Check()
	wrong := func(is bool, err error) {
		if is {
			errs = append(errs, err)
		}
	}
	wrong(o.CreateStream && (o.Stream == "" || len(o.Subjects) == 0), errors.New("a stream can only be created with a name and subjects"))
	if o.Claim != "" {
		wrong(o.Stream == "", errors.New("exactly-once on JetStream needs the name of the stream that takes all messages"))
		wrong(bus.CoversAny(o.Published, o.Claim),
			option.Errorf("the claim subject %s is one that events have: set %s to another one", o.Claim, option.NATSClaimSubject))
		wrong(!validSubject(o.Claim), fmt.Errorf("invalid NATS subject %q for claims: use tokens without blanks and wildcards", o.Claim))
	}
	return errors.Join(errs...)
}
