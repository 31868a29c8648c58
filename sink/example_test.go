package sink_test

import (
	"context"
	"fmt"

	"bridge/sink"
	"bridge/sink/memory"
)

// Publish returns when the bus has acknowledged the batch or has refused a message for good.
func ExampleSink() {
	var bus sink.Sink = memory.New(memory.Options{MaxBytes: 100})
	outcome, err := bus.Publish(context.Background(), []sink.Message{
		{Destination: "orders", Key: []byte("A-1"), Value: []byte(`{"status":"paid"}`)},
		{Destination: "orders", Key: []byte("A-2"), Value: make([]byte, 101)},
		{Destination: "orders", Key: []byte("A-3"), Value: []byte(`{"status":"new"}`)},
	})
	fmt.Println(outcome.Acked(), "acknowledged,", err)
	for _, r := range outcome.Rejected {
		fmt.Printf("message %d: %s\n", r.Index, r.Reason)
	}
	// What must not overtake the rejected message is pending: the caller sends it again.
	fmt.Println(outcome.Status[2] == sink.Pending)
	// Output:
	// 1 acknowledged, <nil>
	// message 1: message of 101 bytes is too large, the limit is 100
	// true
}

// A destination template is filled in for each event.
func ExampleTemplate() {
	subject, err := sink.ParseSubject("eiffel.{family}.{type}.{domain}")
	if err != nil {
		panic(err)
	}
	vars := sink.Vars{Type: "OrdersAddedEvent", Family: "orders", Domain: "example.com"}
	fmt.Printf("%s\n", subject.Append(nil, vars, sink.EscapeToken))
	// Output: eiffel.orders.OrdersAddedEvent.example.com
}

// What the bus refuses for good can go to a dead-letter destination.
func ExampleDeadLetter() {
	dead := sink.DeadLetter(sink.Refused{Reason: "too large", Message: sink.Message{
		Destination: "orders", Stream: "orders", Shard: "shop.orders", RowID: 7,
		ID: "6f1e7f9e-9d8a-5b7c-8d6e-0f1a2b3c4d5e", Value: []byte(`{"meta":{"time":1700000000123}}`),
	}}, "dead-letters", sink.MinDeadLetter)
	read, err := sink.ParseDeadLetter(dead.Value)
	fmt.Println(dead.Destination, read.RowID, read.Reason, err)
	// Output: dead-letters 7 too large <nil>
}
