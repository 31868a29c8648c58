package event_test

import (
	"fmt"

	"example.org/bridge/event"
	"example.org/bridge/source"
)

// orders is the table of the examples.
var orders = source.Columns{
	List: []source.Column{
		{Name: "id", Kind: source.Int}, {Name: "order_no", Kind: source.Text},
		{Name: "status", Kind: source.Text}, {Name: "modified_at", Kind: source.Timestamp},
	},
	Key: []int{1}, Created: -1, Modified: 3, Deleted: -1,
}

func order(id uint64, no, status, modified string) source.Row {
	return source.Row{ID: id, Values: [][]byte{fmt.Append(nil, id), []byte(no), []byte(status), []byte(modified)}}
}

func newOrders() *event.Encoder {
	encoder, err := event.NewEncoder(event.Options{
		Stream: "orders", Shard: "shop.orders", Kind: event.Capability, Domain: "example.com",
		Source: "shop", Table: "orders",
	})
	if err == nil {
		err = encoder.Bind(&orders)
	}
	if err != nil {
		panic(err)
	}
	return encoder
}

// A row becomes one event. Encoding is pure: the same row always has the same ID and bytes.
func ExampleEncoder_Append() {
	encoder := newOrders()
	row := event.Row{Row: order(7, "A+1", "paid", "2026-03-01 12:00:00")}
	_, ev, err := encoder.Append(nil, row)
	if err != nil {
		panic(err)
	}
	fmt.Println(ev.Type)
	fmt.Printf("%s\n", ev.Key)
	fmt.Printf("%s\n", ev.Body)
	// Output:
	// OrdersAddedEvent
	// A%2B1
	// {"meta":{"id":"ce81fd49-140a-57da-80dc-2e21995820be","type":"OrdersAddedEvent","version":"1.0.0","time":1772366400000,"source":{"domainId":"example.com"}},"data":{"id":7,"orderNo":"A+1","status":"paid","modifiedAt":"2026-03-01T12:00:00Z","row":{"source":"shop","table":"orders","id":7}},"links":[]}
}

// A digest covers what a row says, without the time of its last change, so a heartbeat is no news.
func ExampleEncoder_Digest() {
	encoder := newOrders()
	first, _ := encoder.Digest(order(7, "A-1", "paid", "2026-03-01 12:00:00"))
	heartbeat, _ := encoder.Digest(order(7, "A-1", "paid", "2026-03-01 12:00:05"))
	shipped, _ := encoder.Digest(order(7, "A-1", "shipped", "2026-03-01 12:30:00"))
	fmt.Println(heartbeat.Sum == first.Sum, shipped.Sum == first.Sum)
	// Output: true false
}
