package jetstream

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// renewAgain is the pause behind a claim that could not be renewed.
const renewAgain = time.Second

// kept is how much a stream keeps; 0 is any number.
type kept struct {
	messages, bytes int64
	age             time.Duration
}

// describe notes what the stream takes and keeps. It loses the claim where the stream is not the
// one that was claimed: another process may have a claim there with the same sequence.
func (b *batcher) describe(info *jetstream.StreamInfo) {
	b.limits = limits{payload: b.wire.nc.MaxPayload(), message: int64(info.Config.MaxMsgSize), condition: int64(len(b.sink.options.Claim)), line: b.limits.line, guess: true}
	b.subjects, b.asked = info.Config.Subjects, time.Now()
	b.kept = kept{messages: max(0, info.Config.MaxMsgs), bytes: max(0, info.Config.MaxBytes), age: max(0, info.Config.MaxAge)}
	// A batch alone must not push the claim out.
	b.limit = eighth(b.kept.messages, b.taken)
	b.most = min(b.most, b.limit)
	b.claim.compare(info)
}

// eighth returns an eighth of a limit, from 1 to most; most where there is no limit.
func eighth(limit int64, most int) int {
	if limit == 0 {
		return most
	}
	return int(min(max(limit/8, 1), int64(most)))
}

// batchBytes is how many bytes a batch has at most, beside its first message.
func (b *batcher) batchBytes() int { return eighth(b.kept.bytes, b.sink.options.WindowBytes) }

// renewal is how often it is looked whether the claim ages.
func (b *batcher) renewal() time.Duration {
	wait := b.sink.options.renewEvery
	if b.kept.age > 0 {
		wait = min(wait, b.kept.age/8)
	}
	return wait
}

// grown notes that a batch of so many bytes is stored up to a sequence. The claim is looked at
// where a quarter of what the stream keeps has come since.
func (b *batcher) grown(last uint64, bytes int) {
	b.fresh += int64(bytes)
	b.due = b.kept.messages > 0 && int64(last-max(b.seen, b.claim.seq)) >= b.kept.messages/4 || b.kept.bytes > 0 && b.fresh >= b.kept.bytes/4
	b.most = min(b.limit, 2*b.most)
}

// renew makes a new claim where retention may remove ours before long. What keeps it from that is
// met again by the next batch, or by the next renewal, which comes soon.
func (b *batcher) renew(ctx context.Context) {
	b.due, b.looked = false, time.Now()
	if !b.claim.held() || b.wire == nil || !b.wire.alive() {
		return
	}
	info, err := describe(ctx, b.wire.session, b.sink.options.Stream)
	if err == nil && b.claim.ages(info) {
		info, err = b.claim.acquire(ctx, b.wire.session)
	}
	if err != nil {
		b.looked = time.Now().Add(min(renewAgain, b.renewal()) - b.renewal())
		b.sink.options.Logger.Debug("the claim was not renewed", "stream", b.sink.options.Stream, "error", err)
		return
	}
	b.seen, b.fresh = info.State.LastSeq, 0
	b.describe(info)
}
