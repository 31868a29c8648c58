package sink

import (
	"encoding/json"
	"time"

	"example.org/bridge/client/bus"
)

// ListBoundary returns the message at the beginning or the end of a full list of a stream, for
// one TP or subject; at is where, empty for a destination that is one order. It has no header by
// which a reader would take it for an event.
func ListBoundary(kind, id, domain, stream, destination, at string, now time.Time) Message {
	// Nothing in it can fail to be encoded.
	value, _ := json.Marshal(struct {
		List   string `json:"list"`
		ID     string `json:"id"`
		Domain string `json:"domain"`
		Stream string `json:"stream"`
	}{kind, id, domain, stream})
	return Message{
		Destination: destination, TP: at, Key: []byte(bus.ListKey + stream), Value: value, ID: id + "/" + kind, Type: ListType,
		Domain: domain, Time: now, List: kind + ";" + id + ";" + stream,
	}
}
