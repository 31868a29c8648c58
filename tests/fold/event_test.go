package fold

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/tests/world"
)

// stamp is the number of a message: of the run of the program, and within that.
type stamp struct{ epoch, seq uint64 }

func (s stamp) less(o stamp) bool {
	return s.epoch < o.epoch || s.epoch == o.epoch && s.seq < o.seq
}

// event is a message as a consumer decodes it.
type event struct {
	stream, tp, id, kind string
	// key and state are those of an entity, token that of a row of a release stream.
	key, state, token string
	// now is what the event says of its entity.
	now condition
	// link is the event that this one follows, empty for none.
	link  string
	stamp stamp
	at    time.Time
}

func (e *event) String() string {
	if e.id == "" {
		return "no event"
	}
	return fmt.Sprintf("%s of %q, %v, id %.8s behind %.8s, stamp %d/%d, in %s", e.kind, e.key, version{e.now, e.state}, e.id, e.link, e.stamp.epoch, e.stamp.seq, e.tp)
}

// decode reads a message of a topic.
func decode(topic string, m world.Message) (*event, error) {
	var body struct {
		Meta  struct{ ID, Type string }
		Data  struct{ K, State, Reason, Token string }
		Links []struct{ Type, Target string }
	}
	document, err := world.Document(m)
	if err == nil {
		err = json.Unmarshal(document, &body)
	}
	if err != nil {
		return nil, err
	}
	e := &event{
		stream: m.Headers["bridge-stream"], tp: topic + "/" + m.Partition, id: body.Meta.ID,
		key: body.Data.K, state: body.Data.State, token: body.Data.Token, at: m.At,
	}
	for _, kind := range []string{"Added", "Modified", "Deleted", "Published"} {
		if strings.HasSuffix(body.Meta.Type, kind+"Event") {
			e.kind = kind
		}
	}
	switch {
	case e.id == "" || e.kind == "":
		return nil, fmt.Errorf("the id %q, the type %q", body.Meta.ID, body.Meta.Type)
	case e.kind == "Deleted" && body.Data.Reason == "TOMBSTONE":
		e.now, e.state = tombstone, ""
	case e.kind == "Deleted" && body.Data.Reason == "FILTERED":
		e.now, e.state = filtered, ""
	case e.kind == "Deleted":
		e.now, e.state = absent, ""
	default:
		e.now = live
	}
	for _, l := range body.Links {
		if l.Type != "PREVIOUS_VERSION" || e.link != "" {
			return nil, fmt.Errorf("links %v", body.Links)
		}
		e.link = l.Target
	}
	fields := strings.Split(m.Headers["bridge-state"], " ")
	if len(fields) < 3 {
		return nil, fmt.Errorf("bridge-state is %q", m.Headers["bridge-state"])
	}
	if e.stamp.epoch, err = strconv.ParseUint(fields[1], 16, 64); err == nil {
		e.stamp.seq, err = strconv.ParseUint(fields[2], 16, 64)
	}
	return e, err
}
