package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"bridge/internal/backoff"
	"bridge/sink"
)

var (
	// errOther says that a topic has another id than it had.
	errOther = errors.New("it was created again")
	// errSilent says that messages did not come.
	errSilent = errors.New("nothing more came")
)

// attempts retries what reading asks of a cluster. It serves one goroutine.
type attempts struct {
	cluster *cluster
	faults  *faults
	// who names this in faults; topic and partition are what they concern.
	who, topic string
	partition  int32
	// giveUp bounds faults in succession; 0 means no bound.
	giveUp time.Duration

	pause backoff.Backoff
	// failing and missing are when the present faults began.
	failing, missing time.Time
	// looked is when an idle partition was looked at.
	looked time.Time
}

// retry calls do until it succeeds. do returns the generation of the view that it went by.
func (t *attempts) retry(ctx context.Context, do func() (generation int, err error)) error {
	for {
		generation, err := do()
		if err == nil {
			return nil
		}
		if err := t.failed(ctx, generation, err); err != nil {
			return err
		}
	}
}

// succeeded notes an answer.
func (t *attempts) succeeded() {
	if t.failing.IsZero() && t.missing.IsZero() {
		return
	}
	t.failing, t.missing = time.Time{}, time.Time{}
	t.pause.Reset()
	t.faults.ok(t.who)
}

// report notes a fault that answers go with.
func (t *attempts) report(err error) {
	if t.failing.IsZero() {
		t.failing = time.Now()
	}
	t.faults.fail(t.who, tp(t.topic, t.partition), err)
}

// ended notes that nobody tries any more, because of err unless that is nil.
func (t *attempts) ended(ctx context.Context, err error) {
	if err != nil || ctx.Err() != nil {
		t.faults.drop(t.who)
		return
	}
	t.faults.ok(t.who)
}

// failed pauses after a fault and returns nil when it is worth trying again, else the error to end
// with.
func (t *attempts) failed(ctx context.Context, generation int, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, kafkago.TopicAuthorizationFailed) {
		return fmt.Errorf("%w: grant READ on topic %s, and DESCRIBE, to the user of bridge: %w", sink.ErrUnreadable, t.topic, err)
	}
	if again := remedyFor(err); (again == reroute || again == inspect) && !errors.Is(err, errThrottled) && !errors.Is(err, errBatch) && !errors.Is(err, errOther) {
		t.cluster.renew(generation)
	}
	now := time.Now()
	if missing(err) || errors.Is(err, errOther) {
		if t.missing.IsZero() {
			t.missing = now
		}
		if now.Sub(t.missing) < goneAfter {
			return backoff.Pause(ctx, verdictPause)
		}
		return fmt.Errorf("%w: %w", sink.ErrGone, explain(t.topic, err))
	}
	t.missing = time.Time{}
	if t.failing.IsZero() {
		t.failing = now
	}
	explained := explain(t.topic, err)
	if t.giveUp > 0 && (now.Sub(t.failing) > t.giveUp || errors.Is(err, kafkago.SASLAuthenticationFailed)) {
		return explained
	}
	t.faults.fail(t.who, scope(t.topic, t.partition, err), explained)
	return t.pause.Wait(ctx)
}

// silent is the error of giving up on messages that do not come.
func (t *attempts) silent(highWatermark int64) error {
	err := fmt.Errorf("%w within %v though some is left", errSilent, t.giveUp)
	if highWatermark > 0 {
		err = fmt.Errorf("%w (high watermark %d): %w", err, highWatermark, errHeldUp)
	}
	return err
}

// missing reports whether an error says that a topic or partition does not exist.
func missing(err error) bool {
	return errors.Is(err, kafkago.UnknownTopicOrPartition) || errors.Is(err, protocol.ErrNoTopic) || errors.Is(err, protocol.ErrNoPartition)
}
