package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Event is one message of the stream as a consumer sees it.
type Event struct {
	// ID and Type are meta.id and meta.type; Origin is how bridge noticed the row.
	ID, Type, Origin string
	// Table and Row are where it comes from.
	Table string
	Row   int64
	// Members are the scalar members of data in their order, without those of row.
	Members []Member
	// Stored is when the stream took the message.
	Stored time.Time
}

// Member is one member of data as text.
type Member struct{ Name, Value string }

// parse reads a message, by the documented format alone.
func parse(m jetstream.Msg) (Event, error) {
	var body struct {
		Meta struct{ ID, Type string }
		Data json.RawMessage
	}
	if err := json.Unmarshal(m.Data(), &body); err != nil {
		return Event{}, fmt.Errorf("read an event on %s: %w", m.Subject(), err)
	}
	var data struct {
		Row struct {
			Table string
			ID    int64
		}
	}
	if err := json.Unmarshal(body.Data, &data); err != nil {
		return Event{}, fmt.Errorf("read the data of an event on %s: %w", m.Subject(), err)
	}
	meta, err := m.Metadata()
	if err != nil {
		return Event{}, fmt.Errorf("read where an event on %s stands: %w", m.Subject(), err)
	}
	members, err := scalars(body.Data)
	if err != nil {
		return Event{}, fmt.Errorf("read the members of an event on %s: %w", m.Subject(), err)
	}
	return Event{
		ID: body.Meta.ID, Type: body.Meta.Type, Origin: m.Headers().Get("bridge-origin"),
		Table: data.Row.Table, Row: data.Row.ID, Members: members, Stored: meta.Timestamp,
	}, nil
}

// scalars returns the members of an object that are text, numbers or booleans, in their order.
func scalars(object []byte) ([]Member, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.Join(errors.New("no object"), err)
	}
	var members []Member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		switch value.(type) {
		case string, json.Number, bool:
			// The decoder returns keys as strings.
			members = append(members, Member{fmt.Sprint(name), fmt.Sprint(value)})
		}
	}
	return members, nil
}

// keys are the members that identify an entity, by table.
var keys = map[string][]string{
	Products: {"sku"},
	Stock:    {"warehouse", "sku"},
	Orders:   {"id"},
}

// key returns the key of the entity as Kafka would carry it.
func (e *Event) key() string {
	var parts []string
	for _, name := range keys[e.Table] {
		parts = append(parts, e.member(name))
	}
	return strings.Join(parts, "+")
}

// member returns the member called name, empty where there is none.
func (e *Event) member(name string) string {
	for _, m := range e.Members {
		if m.Name == name {
			return m.Value
		}
	}
	return ""
}

// Fact returns the content of the event.
func (e *Event) Fact() Fact { return Fact{e.Table, e.Row, e.state()} }

// state returns the state to show beside the key.
func (e *Event) state() string {
	switch e.member("reason") {
	case "TOMBSTONE":
		return deletedState
	case "ABSENT_IN_SNAPSHOT":
		return goneState
	}
	switch e.Table {
	case Products:
		return e.money("priceCents")
	case Stock:
		return e.member("quantity") + " left"
	default:
		return e.member("customer") + " " + e.money("totalCents")
	}
}

// money returns a member in cents as people write an amount.
func (e *Event) money(name string) string {
	cents, err := strconv.ParseInt(e.member(name), 10, 64)
	if err != nil {
		return e.member(name)
	}
	return money(cents)
}
