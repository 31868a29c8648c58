package main

import "testing"

// TestRowsThatDoNotMatch publishes a table with a condition on its rows.
func TestRowsThatDoNotMatch(t *testing.T) {
	t.Run("of a capability stream they are deleted, and added when they match", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.env["BRIDGE_STREAM_ORDERS_FILTER"] = "total <= 40 AND name <> 'o7'"
		s.wantMessages("the start", 39)
		s.call(exitFine, "nothing is wrong", "verify")
		s.exec("UPDATE orders SET total = 50 WHERE id IN (1, 2, 50)")
		s.exec("UPDATE orders SET total = NULL WHERE id = 3")
		s.exec("UPDATE orders SET total = 4 WHERE id = 60")
		s.call(exitFailed, "does not match the condition of the stream, the last event says that it lives", "verify")
		s.call(exitFine, "orders orders 60 1 0 3 0 0", "reconcile --dry-run")
		s.call(exitFine, "orders orders 60 1 0 3 0 0", "reconcile")
		s.call(exitFine, "orders orders 60 0 0 0 0 0", "reconcile")
		s.call(exitFine, "nothing is wrong", "verify")
		// Under a new id, which the tail reads, and in a row that was never published.
		s.exec("DELETE FROM orders WHERE id IN (10, 1, 59)")
		s.exec("INSERT INTO orders (name, total) VALUES ('o10', 99), ('o1', 98), ('new', 97)")
		s.exec("UPDATE orders SET total = 5 WHERE id = 2")
		s.wantMessages("rows under other ids", 43+2)
		s.call(exitFine, "nothing is wrong", "verify")
	})
	t.Run("more of them than may be gone are no matter of the guard", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.wantMessages("the start", 60)
		s.env["BRIDGE_STREAM_ORDERS_FILTER"] = "total > 50"
		s.call(exitFine, "orders orders 60 0 0 50 0 0", "reconcile")
		s.env["BRIDGE_STREAM_ORDERS_FILTER"] = "total > 40"
		s.call(exitFine, "orders orders 60 10 0 0 0 0", "reconcile")
		s.call(exitFine, "nothing is wrong", "verify")
		delete(s.env, "BRIDGE_STREAM_ORDERS_FILTER")
		s.call(exitFine, "orders orders 60 40 0 0 0 0", "reconcile")
		s.call(exitFine, "nothing is wrong", "verify")
	})
	t.Run("of a release stream they are no events, and no gaps", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.env["BRIDGE_STREAM_ORDERS_KIND"], s.env["BRIDGE_STREAM_ORDERS_KEY"] = "release", "id"
		s.env["BRIDGE_STREAM_ORDERS_FILTER"] = "total % 2 = 0"
		s.wantMessages("the start", 30)
		s.exec("INSERT INTO orders (id, name, total) VALUES (70, 'n', 2), (71, 'n1', 1), (65, 'n2', 1)")
		s.wantMessages("an id that is missing", 31)
		s.call(exitFine, "nothing is wrong", "verify")
		// What did not match is handled, whatever comes.
		delete(s.env, "BRIDGE_STREAM_ORDERS_FILTER")
		s.wantMessages("the end of the condition", 31)
		s.call(exitFailed, "rows without an event", "verify")
		// Not so once the state is lost: then it is unknown which of them did not match.
		s.call(exitFine, "next start reads the bus", "checkpoint rebuild orders")
		s.env["BRIDGE_STREAM_ORDERS_FILTER"] = "total % 2 = 0"
		s.wantMessages("a rebuild", 31)
		s.call(exitFine, "nothing is wrong", "verify")
	})
	t.Run("the condition sees what is left out or masked", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.env["BRIDGE_STREAM_ORDERS_FILTER"], s.env["BRIDGE_STREAM_ORDERS_MASK"] = "total <= 10", "total:redact"
		s.wantMessages("a masked column", 10)
		delete(s.env, "BRIDGE_STREAM_ORDERS_MASK")
		s.env["BRIDGE_STREAM_ORDERS_EXCLUDE"] = "total"
		s.wantMessages("a column that is left out", 20)
		s.call(exitFine, "nothing is wrong", "verify")
	})
}

// TestABadCondition: it is named with its variable, before a row is read.
func TestABadCondition(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const variable = "BRIDGE_STREAM_ORDERS_FILTER"
	for condition, why := range map[string]string{
		"totl > 1": "no such column: totl", "total >": "syntax error", `total > "totl"`: `"totl" in double quotes, which is not a column`,
	} {
		s.env[variable] = condition
		s.call(exitFailed, why, "check")
		s.call(exitFailed, variable+" does not fit orders", "schema")
		s.call(exitFailed, why, "schema")
	}
}
