package jetstream

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bridge/internal/inspect"
	"bridge/sink"

	"github.com/nats-io/nats.go/jetstream"
)

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

func (u *unfit) asError(stream string) error {
	return fmt.Errorf("exactly-once: the stream %s %s: %s", stream, u.what, u.remedy)
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
	if !covered(c.Subjects, o.Claim) {
		list = append(list, unfit{
			inspect.StreamSubject, "does not take the claim subject " + o.Claim, "add it to the stream's subjects",
			"--subjects '" + strings.Join(append(c.Subjects[:len(c.Subjects):len(c.Subjects)], o.Claim), ",") + "'",
		})
	}
	if c.DiscardNewPerSubject {
		list = append(list, unfit{inspect.StreamUnusable, "refuses a second claim (discard_new_per_subject)", "use a stream without that", ""})
	}
	if c.Retention != jetstream.LimitsPolicy {
		list = append(list, unfit{inspect.StreamUnreadable, "removes what is consumed (retention " + strings.ToLower(c.Retention.String()) + ")", "use a stream with the retention limits", ""})
	}
	return list
}

func oldServer(version string) unfit {
	return unfit{inspect.NoAtomicBatches, "lies on nats-server " + version + ", whose atomic batches cannot be relied on", "update the servers to 2.15 or newer", ""}
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

// covered reports whether one of patterns covers a subject.
func covered(patterns []string, subject string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return sink.Covers(pattern, subject) })
}
