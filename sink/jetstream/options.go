package jetstream

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/client/bus"
	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/internal/inspect"
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

// Keeping is how a stream keeps messages. What is zero is not given.
type Keeping struct {
	// Replicas of a stream are 1 where they are not given, those of a bucket 3, or 1 where there
	// are fewer servers.
	Replicas int
	// File or Memory, at most one of them, is where messages are kept. Defaults to File.
	File, Memory bool
	// MaxAge and MaxBytes are limits at which the oldest messages are removed. There is none by
	// default.
	MaxAge   time.Duration
	MaxBytes int64
	// Duplicates is the time for which message ids are remembered. Defaults to 2 minutes.
	Duplicates time.Duration
}

func (k *Keeping) config(o *Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: o.Stream, Subjects: o.Subjects, Storage: k.storage(), Replicas: max(k.Replicas, 1), MaxAge: k.MaxAge,
		MaxBytes: cmp.Or(k.MaxBytes, -1), Duplicates: k.window(), AllowAtomicPublish: o.Claim != "",
	}
}

// Keep sets in the configuration of an existing stream what is given and may be changed, and
// returns what else differs.
func (k *Keeping) Keep(c *jetstream.StreamConfig) (differs string) {
	c.MaxAge, c.Duplicates = cmp.Or(k.MaxAge, c.MaxAge), cmp.Or(k.Duplicates, c.Duplicates)
	c.MaxBytes = cmp.Or(k.MaxBytes, c.MaxBytes)
	if c.MaxAge > 0 {
		c.Duplicates = min(c.Duplicates, c.MaxAge)
	}
	if (k.File || k.Memory) && c.Storage != k.storage() {
		return fmt.Sprintf("the storage %s, not %s", storageName(c.Storage), storageName(k.storage()))
	}
	return ""
}

func (k *Keeping) window() time.Duration { return cmp.Or(max(k.Duplicates, 0), 2*time.Minute) }

func (k *Keeping) storage() jetstream.StorageType {
	if k.Memory {
		return jetstream.MemoryStorage
	}
	return jetstream.FileStorage
}

// flags are those of nats stream add and edit for a stream that is kept in this way.
func (k *Keeping) flags() string {
	text := fmt.Sprintf(" --dupe-window %s", brief(k.window()))
	if k.Replicas > 1 {
		text += fmt.Sprintf(" --replicas %d", k.Replicas)
	}
	if k.MaxAge > 0 {
		text += " --max-age " + brief(k.MaxAge)
	}
	if k.MaxBytes > 0 {
		text += fmt.Sprintf(" --max-bytes %d", k.MaxBytes)
	}
	return text
}

// brief is a duration without what is 0, as people write it.
func brief(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

func storageName(s jetstream.StorageType) string { return strings.ToLower(s.String()) }

// bucketReplicas is how many replicas a bucket has where there are so many servers.
const bucketReplicas = 3

// checkKeeping finds how a stream differs from what is given. Nobody but a person changes it.
func (i *inspection) checkKeeping(c *jetstream.StreamConfig) {
	keeps := i.options.Keeps
	if i.options.Bucket != "" && keeps.Replicas == 0 && len(i.nc.Servers()) >= bucketReplicas {
		// One was away when the bucket was made, or they are new.
		keeps.Replicas = bucketReplicas
	}
	limit := func(limited bool, text string) string {
		if limited {
			return text
		}
		return "unlimited"
	}
	for _, d := range []struct {
		setting option.Name
		differs bool
		// is and wanted follow on "has" and on "not".
		is, wanted string
		// flag is that of nats stream edit, empty where that cannot change it.
		flag string
		// removes says that the change removes messages.
		removes bool
	}{
		{option.NATSStreamReplicas, keeps.Replicas > 0 && c.Replicas != keeps.Replicas, fmt.Sprintf("%d replicas", c.Replicas),
			fmt.Sprint(keeps.Replicas), "--replicas", false},
		{option.NATSStreamStorage, (keeps.File || keeps.Memory) && c.Storage != keeps.storage(), "the storage " + storageName(c.Storage),
			storageName(keeps.storage()), "", false},
		{
			option.NATSStreamMaxAge, keeps.MaxAge > 0 && c.MaxAge != keeps.MaxAge,
			"max_age " + limit(c.MaxAge > 0, brief(c.MaxAge)), brief(keeps.MaxAge), "--max-age",
			c.MaxAge <= 0 || c.MaxAge > keeps.MaxAge,
		},
		{
			option.NATSStreamMaxBytes, keeps.MaxBytes > 0 && c.MaxBytes != keeps.MaxBytes,
			"max_bytes " + limit(c.MaxBytes > 0, fmt.Sprint(c.MaxBytes)), fmt.Sprint(keeps.MaxBytes), "--max-bytes",
			c.MaxBytes <= 0 || c.MaxBytes > keeps.MaxBytes,
		},
		{option.NATSStreamDuplicateWindow, keeps.Duplicates > 0 && c.Duplicates != keeps.Duplicates,
			"a duplicate window of " + brief(c.Duplicates), brief(keeps.Duplicates), "--dupe-window", false},
	} {
		f := i.found(d.differs, inspect.Warning, inspect.StreamDiffers, "stream "+c.Name,
			fmt.Sprintf("has %s, not %s: bridge changes no stream that is there", d.is, d.wanted)).
			Types("nats --server %s stream edit %s %s %s -f", i.at, c.Name, d.flag, d.wanted)
		switch {
		case d.flag == "":
			f.Says("the storage of a stream cannot be changed: correct %s, or make a new one", d.setting).
				Types("%s", i.create(c.Name+"_2", c.Subjects))
		case d.removes:
			f.Says("correct %s, or change the stream, which removes the messages beyond the limit", d.setting)
		default:
			f.Says("correct %s, or change the stream", d.setting)
		}
	}
}
