package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/sink"
)

// Recalls finds out, once in the life of a process, whether the bus holds messages of its shards that their checkpoints do not know: then
// the file is a copy from before. All shards share it. It is safe for concurrent use.
//
// The whole file is of one moment. A shard saves what it is about to publish before it does, so whatever it had published by the time that
// another shard saved a mark is in the file too: only what lies behind the highest mark of each place has to be looked at. That is why no mark
// of a topic is raised (settled) until every shard that has messages behind has recalled them: after a kill they are found again.
//
// The marks of one shard are raised together, and only when all of its topics are settled: what it has published to one may follow what it has
// published to another, and what lies behind its own marks is all that its checkpoint did not know when it saved them.
type Recalls struct {
	bus    sink.Recaller
	store  checkpoint.Store
	log    *slog.Logger
	shards map[checkpoint.Key]bool

	mu     sync.Mutex
	topics map[string]*topicRecall
	// journals has the events of the journals of shards of which a topic holds something, true once they were seen.
	journals map[checkpoint.Key]map[string]bool
	then     func(stream string)
}

// topicRecall is what is known of a topic, or of a stream of JetStream.
type topicRecall struct {
	name string
	// marks are where its places ended when the file was saved last, streams those of bridge whose shards have some.
	marks   []sink.Offset
	streams map[string]bool
	// looking is full while somebody looks. The mutex of Recalls guards the rest.
	looking chan struct{}
	looked  bool
	// held counts the messages of shards behind the marks.
	held map[checkpoint.Key]held
	// settled says that nothing of it has to be recalled any more.
	settled bool
}

// held counts messages of a shard: those of its journals, which it has published and not noted yet, and others, which make its checkpoint a copy.
type held struct{ journals, others int }

// NewRecalls returns what is to be looked for on a bus for the given shards, by what the store holds: call it before any of them runs. It
// returns nil for a bus that cannot be read.
func NewRecalls(ctx context.Context, bus sink.Sink, store checkpoint.Store, shards []*Shard) (*Recalls, error) {
	recaller, ok := bus.(sink.Recaller)
	if !ok {
		return nil, nil
	}
	r := &Recalls{bus: recaller, store: store, log: slog.New(slog.DiscardHandler), shards: make(map[checkpoint.Key]bool),
		topics: make(map[string]*topicRecall), journals: make(map[checkpoint.Key]map[string]bool)}
	for _, s := range shards {
		r.shards[s.opts.key()] = s.opts.Kind == event.Capability
		r.log = s.opts.Logger
	}
	entries, err := store.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the marks of the checkpoint: %w", err)
	}
	for _, e := range entries {
		if _, ours := r.shards[e.Key]; ours {
			for _, m := range e.State.Offsets {
				name := sink.TopicOf(m.TP)
				r.topics[name] = &topicRecall{name: name, streams: make(map[string]bool), looking: make(chan struct{}, 1)}
			}
		}
	}
	for _, e := range entries {
		for _, m := range e.State.Offsets {
			if t := r.topics[sink.TopicOf(m.TP)]; t != nil {
				t.raise(m)
				t.streams[e.Key.Stream] = true
			}
		}
	}
	for _, s := range shards {
		s.opts.Recalls = r
	}
	return r, nil
}

// raise takes in a mark of the file.
func (t *topicRecall) raise(m sink.Offset) {
	i := slices.IndexFunc(t.marks, func(o sink.Offset) bool { return o.TP == m.TP && o.Incarnation == m.Incarnation })
	if i < 0 {
		t.marks = append(t.marks, m)
	} else {
		t.marks[i].Last = max(t.marks[i].Last, m.Last)
	}
}

// Then has f called with the stream of each shard that has recalled something, when it has: it is to reconcile.
func (r *Recalls) Then(f func(stream string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.then = f
}

// await looks at the topics that may have messages of a shard with these marks, unless that was done. If any holds more of it than its journals
// it returns all that may be needed to tell what came last: those that hold messages of it, and those that it has marks of; and how many
// messages were found.
func (r *Recalls) await(ctx context.Context, key checkpoint.Key, marks []sink.Offset, may func(*topicRecall) bool) (topics []*topicRecall, messages int, err error) {
	behind := false
	for _, t := range r.which(may) {
		if err := r.look(ctx, t); err != nil {
			return nil, 0, err
		}
		r.mu.Lock()
		h, holds := t.held[key]
		r.mu.Unlock()
		messages, behind = messages+h.journals+h.others, behind || h.others > 0
		if holds || names(marks, t.name) {
			topics = append(topics, t)
		}
	}
	if !behind {
		return nil, 0, nil
	}
	return topics, messages, nil
}

// names reports whether a mark is of a topic.
func names(marks []sink.Offset, topic string) bool {
	return slices.ContainsFunc(marks, func(m sink.Offset) bool { return sink.TopicOf(m.TP) == topic })
}

// behind returns marks of a topic where what a shard with these marks has published there begins to be unknown to its checkpoint, whatever marks
// others have by now.
func (t *topicRecall) behind(own []sink.Offset) []sink.Offset {
	marks := slices.Clone(t.marks)
	for i, m := range marks {
		if j := slices.IndexFunc(own, func(o sink.Offset) bool { return o.TP == m.TP && o.Incarnation == m.Incarnation }); j >= 0 {
			marks[i] = own[j]
		}
	}
	return marks
}

// which returns the topics for which may holds.
func (r *Recalls) which(may func(*topicRecall) bool) []*topicRecall {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*topicRecall
	for _, t := range r.topics {
		if may(t) {
			list = append(list, t)
		}
	}
	return list
}

// look reads what a topic holds behind its marks, once.
func (r *Recalls) look(ctx context.Context, t *topicRecall) error {
	select {
	case t.looking <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-t.looking }()
	if r.isLooked(t) {
		return nil
	}
	found := make(map[checkpoint.Key]held)
	_, err := r.bus.Recall(ctx, t.marks, func(m *sink.Message) error { return r.count(ctx, found, m) })
	if errors.Is(err, sink.ErrUnreadable) {
		r.log.Warn("whether the checkpoint is a copy from before cannot be told: if it is, some entities may stay wrong on the bus", "topic", t.name, "error", err)
		found, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("look at what is behind the checkpoint in %s: %w", t.name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.looked, t.held = true, found
	t.settled = t.recalled()
	return nil
}

func (r *Recalls) isLooked(t *topicRecall) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return t.looked
}

// count takes in a message behind the marks.
func (r *Recalls) count(ctx context.Context, found map[checkpoint.Key]held, m *sink.Message) error {
	key := checkpoint.Key{Stream: m.Stream, Shard: m.Shard}
	if !r.shards[key] || m.Type == sink.DeadLetterType {
		return nil
	}
	journal, err := r.journal(ctx, key)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h := found[key]
	if _, ours := journal[m.ID]; ours {
		journal[m.ID] = true
		h.journals++
	} else {
		h.others++
	}
	found[key] = h
	return nil
}

// journal returns the events of the journals of a shard. The shard waits for the look that asks first, so that they are those of the file.
func (r *Recalls) journal(ctx context.Context, key checkpoint.Key) (map[string]bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	journal := r.journals[key]
	if journal != nil {
		return journal, nil
	}
	state, err := r.store.Load(ctx, key)
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		return nil, fmt.Errorf("load the checkpoint: %w", err)
	}
	journal = make(map[string]bool)
	for _, j := range state.Journals {
		for i := range j.Messages {
			journal[j.Messages[i].ID] = false
		}
	}
	r.journals[key] = journal
	return journal, nil
}

// arrived reports whether an event of a journal was seen behind the marks.
func (r *Recalls) arrived(key checkpoint.Key, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.journals[key][id]
}

// recalled reports whether all shards have recalled what the topic holds. The caller holds mu.
func (t *topicRecall) recalled() bool {
	for _, h := range t.held {
		if h.others > 0 {
			return false
		}
	}
	return true
}

// settled reports whether the marks of a place may be raised.
func (r *Recalls) settled(place string) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.topics[sink.TopicOf(place)]
	return t == nil || t.settled
}

// done notes that a shard has recalled what topics hold of it.
func (r *Recalls) done(key checkpoint.Key, topics []*topicRecall) {
	r.mu.Lock()
	then := r.then
	delete(r.journals, key)
	for _, t := range topics {
		delete(t.held, key)
		t.settled = t.recalled()
	}
	r.mu.Unlock()
	if then != nil {
		then(key.Stream)
	}
}
