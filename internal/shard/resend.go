package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
)

// DeadLetter names an event that was put aside, as its message says. It proves nothing: the owner
// reads the row again.
type DeadLetter struct {
	// Row is the id of the row, Entity the key of an entity of a capability stream, empty if the
	// message does not say it.
	Row    uint64 `json:"row"`
	Entity []byte `json:"entity,omitempty"`
	// Event is the meta.id of the event, Type its type, Previous the event that it follows, empty
	// if there is none.
	Event    string `json:"event"`
	Type     string `json:"type"`
	Previous string `json:"previous"`
	// Time is the event's meta.time, zero if the message does not say it; Digest is the sink.Digest
	// of its bytes.
	Time   time.Time `json:"time,omitzero"`
	Digest string    `json:"digest"`
}

// DeadLetterOf returns what the message of a dead letter says.
func DeadLetterOf(l *sink.DeadLetterDocument) DeadLetter {
	deadLetter := DeadLetter{Row: l.RowID, Entity: l.Entity, Event: l.EventID, Type: l.EventType, Previous: l.Previous, Digest: l.Digest}
	if l.EventTime > 0 {
		deadLetter.Time = time.UnixMilli(l.EventTime)
	}
	return deadLetter
}

// ResendState is what becomes of a dead letter that is sent again.
type ResendState string

// The states of dead letters.
const (
	// ResendPublished: what is true is on the bus, as the event that was put aside, with its id and
	// bytes, or as another one.
	ResendPublished ResendState = "published"
	// ResendDone: there is nothing to publish, and nothing to do.
	ResendDone ResendState = "done"
	// ResendRefused: the bus refuses what was published; it is a dead letter again.
	ResendRefused ResendState = "refused"
	// ResendLeft: nothing is published, and something is to be done. Where a resend has begun, the
	// next read that proves what is true of the entity publishes it.
	ResendLeft ResendState = "left"
)

// Done reports whether nothing is left to do for the dead letter.
func (s ResendState) Done() bool { return s == ResendPublished || s == ResendDone }

// ResendOutcome is what became of a dead letter.
type ResendOutcome struct {
	State ResendState `json:"fate"`
	// Event and Type are those of the event that was published, empty where none was.
	Event string `json:"event"`
	Type  string `json:"type"`
	// Why says more where the state alone does not tell.
	Why string `json:"why"`
}

// resending is a dead letter on its way through owner and publisher.
type resending struct {
	DeadLetter
	// nominated says that its entity is nominated, whose last event is the one put aside.
	nominated bool
	// mu guards outcome: what a reconcile publishes of the entity changes it, too, as long as the
	// caller of Resend waits.
	mu      sync.Mutex
	outcome ResendOutcome
}

func (r *resending) set(outcome ResendOutcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome = outcome
}

func (r *resending) get() ResendOutcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outcome
}

// end notes that nothing is published for r, and why.
func (r *resending) end(state ResendState, why string) { r.set(ResendOutcome{State: state, Why: why}) }

// publish notes that the last event of b is published for the dead letter.
func (r *resending) publish(b *batch, e *event.Event) {
	r.set(ResendOutcome{State: ResendPublished, Event: e.ID, Type: e.Type})
	b.again = append(b.again, r)
}

// refuse notes that the bus refuses an event, and reports whether it is published for r.
func (r *resending) refuse(id, why string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outcome.Event != id {
		return false
	}
	r.outcome.State, r.outcome.Why = ResendRefused, why
	return true
}

// is reports whether e is the event that was put aside.
// Invariant 4: the id alone does not tell that the bytes are the same.
func (r *resending) is(e *event.Event) bool {
	return e.ID == r.Event && sink.Digest(e.Body) == r.Digest
}

// errCancelled ends a read that nobody waits for any more.
var errCancelled = errors.New("the caller waits no longer")

// Resend has the owner read the rows of dead letters again and publish what is true then. It blocks
// until that is committed. A second call publishes the same event again, or nothing. With dry
// nothing is published. An error says that the shard stopped or ctx ended: any part may have been
// published. Once ctx ends, what was not handed on by then is left.
func (s *Shard) Resend(ctx context.Context, deadLetters []DeadLetter, dry bool) ([]ResendOutcome, error) {
	n := newResend(deadLetters, dry)
	if err := s.nominator.nominate(ctx, n); err != nil {
		return nil, err
	}
	for _, r := range n.deadLetters {
		if !r.nominated || r.get().State != ResendLeft {
			continue
		}
		entries, err := s.opts.View.Lookup(ctx, s.opts.Name, [][]byte{r.Entity}, nil)
		if err != nil {
			return nil, err
		}
		if last := event.FormatID(entries[0].Event); last != r.Event {
			// Another table of the stream has it.
			op := event.Deleted
			if entries[0].State == store.Live {
				op = event.Modified
			}
			r.set(ResendOutcome{State: ResendPublished, Event: last, Type: s.opts.Encoder.Type(op)})
		}
	}
	return n.outcomes(), nil
}

// ServeDryRun makes a shard that does not run the owner of a dry reconcile: its reach is the saved
// position. The status says why not where there is none, or the source does not answer.
func (s *Shard) ServeDryRun(ctx context.Context) {
	saved, _, err := s.opts.Store.Progress(ctx, s.opts.key())
	if err == nil && !saved.Started {
		err = option.Errorf("it has no checkpoint: nothing of the table was published yet, and bridge run begins it where %s says", option.Start)
	}
	if err == nil {
		if err = s.server.readTraits(ctx); err != nil {
			err = fmt.Errorf("ask how ids are handed out: %w", err)
		}
	}
	if err != nil {
		s.status.stop(err)
		return
	}
	s.dry = true
	s.status.update(func(status *Status) { status.Position, status.LastPoll.Time = saved.Position, time.Now() })
}

// Preview is a dry Resend for a shard that does not run, from what is saved and from its table
// alone. What the bus has and the store lacks is not known.
func (s *Shard) Preview(ctx context.Context, deadLetters []DeadLetter) ([]ResendOutcome, error) {
	// A command does not wait for a source that is away.
	if err := errors.Join(s.server.readTraits(ctx), s.server.refuseTailless()); err != nil {
		return nil, err
	}
	state, list, err := s.opts.Feed.Begin(ctx, s.opts.Name, s.gaps.options(), s.opts.PublishedRows)
	if err != nil {
		return nil, s.opts.damaged(err)
	}
	defer s.opts.Feed.End(s.opts.Name)
	s.gaps.state = state
	n := newResend(deadLetters, true)
	n.ctx = ctx
	entities := newEntities(&s.opts, s.retrier, s.gaps)
	if err := s.newNominations(entities, newPublished(s.server, entities, s.gaps, list), nil).serve(ctx, n); err != nil {
		return nil, err
	}
	return n.outcomes(), nil
}

func newResend(deadLetters []DeadLetter, dry bool) *nomination {
	n := &nomination{deadLetters: make([]*resending, len(deadLetters)), dry: dry}
	for i, one := range deadLetters {
		n.deadLetters[i] = &resending{DeadLetter: one}
	}
	return n
}

func (n *nomination) outcomes() []ResendOutcome {
	outcomes := make([]ResendOutcome, len(n.deadLetters))
	for i, r := range n.deadLetters {
		outcomes[i] = r.get()
	}
	return outcomes
}
