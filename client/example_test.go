package client_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"example.org/bridge/client"
	"example.org/bridge/client/jetstream"
	"example.org/bridge/client/kafka"
)

// A copy of the stream orders, from Kafka.
func ExampleTable() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	bus, err := kafka.New(kafka.Options{Brokers: []string{"localhost:9092"}})
	if err != nil {
		log.Fatal(err)
	}
	table, err := client.NewTable(bus, client.Options{Stream: "orders", Destinations: []string{"orders"}})
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- table.Run(ctx) }()
	select {
	case <-table.Ready():
	case err := <-done:
		log.Fatal(err)
	}
	if event, there := table.Get("4711"); there {
		var order struct {
			Status string
			Total  string // DECIMAL
		}
		if err := event.Decode(&order); err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Key, order.Status, order.Total)
	}
	if err := <-done; err != nil {
		log.Fatal(err)
	}
}

// What changes from now on, with all that is there first.
func ExampleTable_Watch() {
	var table *client.Table // as in the example of Table
	for change := range table.Watch(context.Background(), true) {
		switch change.Operation {
		case client.Deleted:
			fmt.Println("gone:", change.Key)
		default:
			fmt.Println("now:", change.Key, string(change.Event.Body))
		}
	}
}

// Facts from JetStream, each at least once.
func ExampleEvents() {
	bus, err := jetstream.New(jetstream.Options{URLs: []string{"nats://localhost:4222"}})
	if err != nil {
		log.Fatal(err)
	}
	o := client.Options{Stream: "releases", Destinations: []string{"eiffel.*.*.*.bridge"}}
	events, err := client.NewEvents(bus, "mailer", o, func(ctx context.Context, e client.Event) error {
		if e.Repeat {
			return nil // this process has handled it
		}
		data, err := e.Data()
		if err != nil {
			return err
		}
		fmt.Println(e.ID, e.Type, string(data))
		return nil // an error has it tried again
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := events.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
