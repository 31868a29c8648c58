package main

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"example.org/bridge/internal/app"
	"example.org/bridge/internal/shard"
)

// TestDeadLettersOfAShop has rows that are larger than any message of the server inside the
// process.
func TestDeadLettersOfAShop(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env["BRIDGE_DEAD_LETTER"] = "eiffel.dead"
	s.env["BRIDGE_RECONCILE_INTERVAL"] = "1h"
	s.call(exitFailed, "there is no folder", "deadletter list")
	s.exec("UPDATE orders SET name = id || hex(zeroblob(4200000)) WHERE id IN (7, 8)")
	s.env["BRIDGE_STREAM_ORDERS_KEY"] = "id"
	s.call(exitFine, "", "reconcile")
	s.call(exitFine, "orders orders 7 7 OrdersAddedEvent", "deadletter list")
	got := outcome{}.call(s.env, "deadletter", "list", "--json")
	var list deadLetterReport
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list.DeadLetters) != 2 || list.Others != 0 || list.DeadLetters[1].Count != 1 ||
		list.DeadLetters[1].RowID != 8 || list.DeadLetters[1].First.IsZero() || list.DeadLetters[1].Size < 8_400_000 {
		t.Errorf("%v: %.400s %s", err, got.out, got.err)
	}
	// They are still too large.
	s.call(exitFailed, "2 dead letters: 2 refused", "deadletter resend")

	s.exec("UPDATE orders SET name = 'small' WHERE id = 7")
	s.exec("DELETE FROM orders WHERE id = 8")
	path := strings.TrimPrefix(s.env["BRIDGE_CHECKPOINT_URL"], "file:")
	before := contents(t, path)
	s.call(exitFine, "2 dead letters: 2 published dry run: nothing was published", "deadletter resend --dry-run")
	if contents(t, path) != before {
		t.Error("a dry run has changed the checkpoint")
	}
	s.call(exitFine, "published: OrdersModifiedEvent", "deadletter resend --stream orders --shard orders --row 7")
	got = outcome{}.call(s.env, "deadletter", "resend", "--json")
	var sent sentList
	if err := json.Unmarshal([]byte(got.out), &sent); err != nil || !sent.Good || len(sent.DeadLetters) != 2 || sent.DeadLetters[0].State != shard.ResendDone || sent.DeadLetters[0].SentEvent != "" ||
		sent.DeadLetters[1].State != shard.ResendPublished || sent.DeadLetters[1].SentType != "OrdersDeletedEvent" {
		t.Errorf("%v: %s %s", err, got.out, got.err)
	}
	s.call(exitFine, "there are no dead letters", "deadletter resend --row 9")

	s.env["BRIDGE_CHECKPOINT_URL"] += ".other"
	s.env["BRIDGE_SINK_URL"] = "embedded://" + filepath.Join(filepath.Dir(path), "nats")
	s.call(exitFailed, "there is no checkpoint at", "deadletter resend")
	s.env["BRIDGE_STREAM_ORDERS_TABLE"] = "other"
	s.call(exitFailed, "2 dead letters: 2 left", "deadletter resend")
}

func TestDeadLettersOfARunningServerInside(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env["BRIDGE_DEAD_LETTER"] = "eiffel.dead"
	running, err := app.Open(t.Context(), app.Options{Config: load(t, s.env), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := running.Close(); err != nil {
			t.Error(err)
		}
	}()
	if !running.Daemon().Status().Streams[0].Resendable {
		t.Error("the status says that nothing can be sent again")
	}
	s.call(exitFailed, "stop it, or let bridge deadletter list in with ?listen=", "deadletter list")
	s.call(exitFailed, "stop it, or let bridge deadletter resend in with ?listen=", "deadletter resend")
}
