package jetstream

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/client/bus"
	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/outage"
	"example.org/bridge/sink"
)

// faults reports what is waited out: to the log without flooding, to readiness and to the hook.
type faults struct {
	log  *outage.Log
	hook sink.Fault
}

// Fail implements [bus.Faults]: it notes that what is tried failed once more. what tells faults of
// one TP apart.
func (f *faults) Fail(what, tp string, err error) {
	f.log.Fail(what, err)
	f.hook.Fail(what, tp, err)
}

// OK implements [bus.Faults].
func (f *faults) OK(what string) { f.log.OK(what) }

// Drop implements [bus.Faults].
func (f *faults) Drop(what string) { f.log.Forget(what) }

// gone is OK for a fault that nobody meets any more; abandoned says that it was not overcome.
func (f *faults) gone(what string, abandoned bool) {
	if abandoned {
		f.Drop(what)
		return
	}
	f.OK(what)
}

// Error codes of JetStream that end when somebody increases a limit.
const (
	codeMaxBytesMissing = 10113
	codeMaxBytesTooHigh = 10122
)

// advised adds to a refusal of JetStream what to do about it, where that is known.
func advised(code int, err error) error {
	switch code {
	case codeStoreFailed:
		switch text := err.Error(); {
		case strings.Contains(text, "per subject"):
			return fmt.Errorf("%w: the stream refuses further messages of the subject (discard_new_per_subject): use a stream without that", err)
		case strings.Contains(text, "maximum"):
			return fmt.Errorf("%w: the stream is full and refuses what is new (discard new): increase its limits, purge it, or let it discard old", err)
		}
	case codeMaxBytesMissing, codeMaxBytesTooHigh:
		return option.Errorf("%w: set %s to a number of bytes that the account allows", err, option.NATSStreamMaxBytes)
	}
	return server.AdvisedCode(code, err)
}

// firstAtomic is the first minor version 2 of nats-server whose atomic batches can be relied on.
// Those of 2.12 to 2.14.8 may store a part (decision 21).
const firstAtomic = 15

// unfit is why a stream cannot be published to once.
type unfit struct {
	code inspect.Code
	what string
	// remedy says what to do, flags how nats stream edit does it, "" where it cannot.
	remedy, flags string
}

// unfitFor returns why a stream cannot carry claims and atomic batches, nil where it can. version
// is that of the server.
func unfitFor(o *Options, c *jetstream.StreamConfig, version string) (list []unfit) {
	switch {
	case tooOld(version):
		list = append(list, oldServer(version))
	case !c.AllowAtomicPublish:
		list = append(list, unfit{inspect.NoAtomicBatches, "takes no atomic batches (allow_atomic)", "allow them", "--allow-batch"})
	}
	if !bus.CoversAny(c.Subjects, o.Claim) {
		list = append(list, unfit{
			inspect.StreamSubject, "does not take the claim subject " + o.Claim, "add it to the stream's subjects",
			"--subjects '" + strings.Join(append(c.Subjects[:len(c.Subjects):len(c.Subjects)], o.Claim), ",") + "'",
		})
	}
	if c.DiscardNewPerSubject {
		list = append(list, unfit{inspect.StreamUnusable, "refuses a second claim (discard_new_per_subject)", "use a stream without that", ""})
	}
	if c.Retention != jetstream.LimitsPolicy {
		list = append(list, unfit{inspect.StreamUnreadable,
			"removes what is consumed (retention " + strings.ToLower(c.Retention.String()) + ")", "use a stream with the retention limits", ""})
	}
	return list
}

func oldServer(version string) unfit {
	return unfit{inspect.NoAtomicBatches, "lies on nats-server " + version + ", whose atomic batches cannot be relied on",
		"update the servers to 2.15 or newer", ""}
}

// tooOld reports whether a server of this version has no atomic batches, or may store a part of
// one. A version that it cannot read is new enough: the stream tells.
func tooOld(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return errA == nil && errB == nil && (a < 2 || a == 2 && b < firstAtomic)
}

// usable returns why a stream cannot acknowledge what is published to it, or has it where it is not
// found again.
func usable(o *Options, info *jetstream.StreamInfo) error {
	name := info.Config.Name
	switch {
	case info.Config.NoAck:
		return fmt.Errorf("the stream %s acknowledges nothing (no_ack): allow acknowledgements", name)
	case info.Config.Sealed:
		return fmt.Errorf("the stream %s is sealed", name)
	case info.Config.Mirror != nil:
		return fmt.Errorf("the stream %s is a mirror: publish to the one that it copies", name)
	case transforms(o, info.Config.SubjectTransform):
		return fmt.Errorf("the stream %s stores messages under other subjects (subject_transform), where bridge does not find them again: use a stream without that, or let it leave alone the subjects of bridge", name)
	}
	return nil
}

// transforms reports whether a stream stores messages of bridge under other subjects.
func transforms(o *Options, t *jetstream.SubjectTransformConfig) bool {
	if t == nil || t.Source == t.Destination {
		return false
	}
	subjects := o.Published
	if o.Claim != "" {
		subjects = append(slices.Clone(subjects), o.Claim)
	}
	return t.Source == "" || len(subjects) == 0 || slices.ContainsFunc(subjects, func(s string) bool { return bus.Meet(t.Source, s) })
}
