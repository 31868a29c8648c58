package jetstream

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// wire is what a worker uses of a session: an inbox for the answers to what it publishes.
type wire struct {
	*session
	inbox string
	sub   *nats.Subscription
	// acks has room for every answer that can be under way.
	acks  chan *nats.Msg
	since time.Time
	// denied holds the last refusal that belongs to no answer.
	denied chan error
}

// open subscribes an inbox. room is the number of messages that may wait for an answer.
func (s *session) open(room int) (*wire, error) {
	w := &wire{
		session: s, since: time.Now(), inbox: s.nc.NewInbox() + ".", acks: make(chan *nats.Msg, 4*room), denied: make(chan error, 1),
	}
	var err error
	if w.sub, err = s.nc.ChanSubscribe(w.inbox+"*", w.acks); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wires[w] = struct{}{}
	return w, nil
}

func (w *wire) close() {
	w.mu.Lock()
	delete(w.wires, w)
	w.mu.Unlock()
	// A connection that is gone has taken the subscription with it.
	_ = w.sub.Unsubscribe()
}

// reply is the subject for the answer to the message with this token.
func (w *wire) reply(token uint64) string {
	return string(strconv.AppendUint(append(make([]byte, 0, 48), w.inbox...), token, 10))
}

// token returns the number in the subject of an answer.
func (w *wire) token(subject string) (uint64, bool) {
	if len(subject) <= len(w.inbox) {
		return 0, false
	}
	n, err := strconv.ParseUint(subject[len(w.inbox):], 10, 64)
	return n, err == nil
}
