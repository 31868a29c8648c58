package main

import (
	"strings"
	"testing"
)

func TestVerifyNamesAnotherKeyAndOtherDomains(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env["BRIDGE_STREAM_ORDERS_DESTINATION"] = "orders.{type}"
	s.call(exitFine, "", "reconcile")
	s.env["BRIDGE_STREAM_ORDERS_KEY"] = "NAME"
	s.call(exitFine, "nothing is wrong", "verify")
	delete(s.env, "BRIDGE_STREAM_ORDERS_KEY")
	s.call(exitFailed, "WRONG: otherKey 1: the stream was published under another KIND, KEY or scope", "verify")
	s.env["BRIDGE_STREAM_ORDERS_KEY"], s.env["BRIDGE_DOMAIN_ID"] = "name", "another"
	s.call(exitFailed, "bus: 60 messages in 1 partition, 60 of the domain bridge stream orders: capability, 1 table with 60 rows; 0 events", "verify")
}

func TestVerifyJudgesTheOtherStreams(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env["BRIDGE_STREAM_ORDERS_DESTINATION"] = "orders.{type}"
	s.call(exitFine, "", "reconcile")
	s.env["BRIDGE_STREAMS"] = "orders,gone,bound"
	s.env["BRIDGE_STREAM_GONE_TABLE"], s.env["BRIDGE_STREAM_GONE_KIND"] = "gone", "release"
	s.exec(`CREATE TABLE bound (id INTEGER PRIMARY KEY, "row" TEXT)`)
	s.env["BRIDGE_STREAM_BOUND_TABLE"], s.env["BRIDGE_STREAM_BOUND_KIND"] = "bound", "release"
	got := outcome{}.call(s.env, "verify")
	if got.status != exitFailed {
		t.Errorf("status %d", got.status)
	}
	for _, want := range []string{"stream orders: capability, 1 table with 60 rows; 60 events", "stream gone: NOT JUDGED, for its table gone: ", "stream bound: NOT JUDGED, for its table bound: ", `column "row" becomes the member "row"`, "BRIDGE_STREAM_BOUND_FIELDS"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in %s", want, got.out)
		}
	}
	if strings.Contains(got.out, "WRONG") || !strings.Contains(got.err, "the stream gone could not be judged, for its table gone; the stream bound could not be judged") {
		t.Errorf("out %s\nerr %s", got.out, got.err)
	}
}
