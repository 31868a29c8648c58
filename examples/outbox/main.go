// Command outbox is a service that writes what it has to tell into an outbox, in the transaction of
// the change, and two others that hear of it from topics of their own. See README.md.
//
//	make example-outbox
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"sync"

	"example.org/bridge/client"
	"example.org/bridge/client/bus"
	"example.org/bridge/examples/internal/stage"
)

//go:embed table.sql table.sqlite.sql bridge.env
var files embed.FS

func main() { stage.Main("outbox", files, story) }

type row struct{ aggregateType, aggregateID, kind, payload string }

type service struct {
	*stage.Stage

	mu    sync.Mutex
	heard map[string][]row
}

// change changes an order and writes rows into the outbox, in one transaction: either both are
// there, or none.
func (s *service) change(ctx context.Context, order, state string, rows ...row) error {
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "REPLACE INTO purchase_order VALUES (?, ?)", order, state)
	for _, r := range rows {
		if err == nil {
			_, err = tx.ExecContext(ctx, "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES (?, ?, ?, ?)",
				r.aggregateType, r.aggregateID, r.kind, r.payload)
		}
	}
	if err != nil || state == "refused" {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (s *service) listen(ctx context.Context, name, aggregateType string) error {
	o := s.Options("outbox")
	o.Destinations = slices.DeleteFunc(o.Destinations, func(to string) bool { return to != s.Named("outbox.event."+aggregateType) })
	return s.Listen(ctx, name, o, func(_ context.Context, e client.Event) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.Repeat {
			return nil
		}
		s.Say("%s: %s of %s: %s", name, e.Headers["type"], e.Key, e.Body)
		s.heard[aggregateType] = append(s.heard[aggregateType], row{aggregateType, e.Key, e.Headers["type"], string(e.Body)})
		return nil
	})
}

func (s *service) refused(ctx context.Context) (refused []string, err error) {
	reader, err := s.Bus.Open(client.Opening{Destinations: []string{s.Named("outbox.refused")}})
	if err != nil {
		return nil, err
	}
	tps, err := reader.TPs(ctx, []string{s.Named("outbox.refused")})
	for i := 0; i < len(tps) && err == nil; i++ {
		_, err = reader.Read(ctx, bus.Span{TP: tps[i].Name, From: tps[i].First, To: tps[i].End}, func(m *bus.Stored) error {
			refused = append(refused, string(m.Value))
			return nil
		})
	}
	return refused, errors.Join(err, reader.Close())
}

// story has a service tell of orders and customers, tell nothing of a change that was rolled back,
// and write to a topic that nobody has.
func story(ctx context.Context, s *stage.Stage) error {
	of := &service{Stage: s, heard: make(map[string][]row)}
	if err := errors.Join(of.listen(ctx, "shipping", "order"), of.listen(ctx, "newsletter", "customer")); err != nil {
		return err
	}
	created := row{"order", "order-1", "OrderCreated", `{"lines": [{"n": 1, "item": "Debezium in Action"}]}`}
	customer := row{"customer", "anna", "CustomerChanged", `{"orders": 1}`}
	paid := row{"order", "order-1", "OrderPaid", `{"total": 39.98}`}
	stray := row{"invoice", "order-1", "InvoiceSent", `{"no": 7}`}
	for _, step := range []struct {
		what, state string
		rows        []row
	}{
		{"an order, and its customer, in one transaction", "created", []row{created, customer}},
		{"a change that is rolled back", "refused", []row{{"order", "order-1", "OrderShipped", `{}`}}},
		{"the order is paid, and a row names a topic that nobody has", "paid", []row{stray, paid}},
	} {
		s.Say("%s", step.what)
		if err := of.change(ctx, "order-1", step.state, step.rows...); err != nil {
			return err
		}
	}
	err := s.Wait(ctx, "each row at its service, and the stray one put aside", func() (bool, error) {
		refused, err := of.refused(ctx)
		of.mu.Lock()
		defer of.mu.Unlock()
		return len(of.heard["order"]) >= 2 && len(of.heard["customer"]) >= 1 && len(refused) == 1, err
	})
	if err != nil {
		return err
	}
	s.Say("the outbox is emptied: deleted rows make no events")
	if _, err := s.DB.ExecContext(ctx, "DELETE FROM outbox"); err != nil {
		return err
	}
	last := row{"customer", "anna", "CustomerLeft", `{}`}
	if err := of.change(ctx, "order-1", "closed", last); err != nil {
		return err
	}
	return s.Wait(ctx, "the rows of both services, byte for byte and in their order", func() (bool, error) {
		of.mu.Lock()
		defer of.mu.Unlock()
		orders, customers := of.heard["order"], of.heard["customer"]
		if len(customers) < 2 {
			return false, nil
		}
		if !slices.Equal(orders, []row{created, paid}) || !slices.Equal(customers, []row{customer, last}) {
			return false, fmt.Errorf("heard %q and %q", orders, customers)
		}
		s.Say("4 rows were heard, each once, byte for byte and in the order of its aggregate; 1 was put aside")
		return true, nil
	})
}
