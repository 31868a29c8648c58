package jetstream

import (
	"strconv"

	"github.com/nats-io/nats.go"

	"example.org/bridge/client/jetstream/server"
)

// wire is what a publisher uses of a [server.Session]: an inbox for the answers to what it
// publishes.
type wire struct {
	*server.Session
	inbox string
	sub   *nats.Subscription
	// acks has room for every answer that can be under way.
	acks chan *nats.Msg
	// denied holds the last refusal that belongs to no answer.
	denied chan error
	forget func()
}

// openWire subscribes an inbox. room is the number of messages that may wait for an answer.
func openWire(s *server.Session, room int) (*wire, error) {
	w := &wire{Session: s, inbox: s.NC.NewInbox() + ".", acks: make(chan *nats.Msg, 4*room), denied: make(chan error, 1)}
	var err error
	if w.sub, err = s.NC.ChanSubscribe(w.inbox+"*", w.acks); err != nil {
		return nil, err
	}
	w.forget = s.OnDenied(func(err error) {
		select {
		case w.denied <- err:
		default:
		}
	})
	return w, nil
}

func (w *wire) close() {
	w.forget()
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
