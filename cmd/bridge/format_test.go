package main

import "testing"

// TestEveryFormatOfEvents publishes in one format after the other, and verifies all of it.
func TestEveryFormatOfEvents(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.call(exitFine, "orders orders 60 0 0 0 0 0", "reconcile")
	for i, format := range []string{"cloudevents", "row", "eiffel"} {
		s.env["BRIDGE_STREAM_ORDERS_EVENT_FORMAT"] = format
		s.exec([]string{"UPDATE orders SET total = 7 WHERE id = 3", "UPDATE orders SET total = 8 WHERE id = 3", "UPDATE orders SET total = 9 WHERE id = 3"}[i])
		s.exec([]string{"DELETE FROM orders WHERE id = 5", "DELETE FROM orders WHERE id = 6", "DELETE FROM orders WHERE id = 7"}[i])
		s.call(exitFine, "", "reconcile")
		s.call(exitFine, "nothing is wrong", "verify")
	}
}
