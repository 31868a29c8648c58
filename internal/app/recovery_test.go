package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"example.org/bridge/internal/stream"
)

// TestAFormerNumberTakesNothingOver: a process that is not permitted ends before it fences another.
func TestAFormerNumberTakesNothingOver(t *testing.T) {
	t.Parallel()
	refused, fences := errors.New("refused"), 0
	fence := func(context.Context) error { fences++; return nil }
	for _, answer := range []error{refused, nil} {
		err := permitted(func(context.Context) error { return answer }, fence)(t.Context())
		if errors.Is(err, refused) != (answer != nil) || errors.Is(err, stream.ErrStartAgain) != (answer != nil) {
			t.Errorf("it returns %v", err)
		}
	}
	if fences != 1 {
		t.Errorf("%d fences", fences)
	}
}

// TestABusThatCannotBeReadBack: a bridge goes on by its store, under an epoch above the last one.
func TestABusThatCannotBeReadBack(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, "x.moves")
	h.stop()
	h.unreadable = true
	h.start()
	row := h.insert("d_0", "M", "active")
	h.published("M", "active")
	first := h.app.Daemon().Status()
	h.restart(false)
	h.update("d_0", row, "M", "changed")
	h.published("M", "changed")
	second := h.app.Daemon().Status()
	if !first.Streams[0].CatchUp.Ready || first.Epoch == 0 || second.Epoch <= first.Epoch {
		t.Errorf("epoch %d and then %d, ready is %v", first.Epoch, second.Epoch, first.Streams[0].CatchUp.Ready)
	}
	h.compare()
	if n := len(h.bus.Messages("x.moves")); n != 2 {
		t.Errorf("%d messages, want 2: %s", n, h.history())
	}
}

// TestAStreamThatCannotCatchUp: its messages are about entities of another key.
func TestAStreamThatCannotCatchUp(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, "x.moves")
	h.insert("d_0", "M", "active")
	h.published("M", "active")
	h.cfg.Streams[0].Key = []string{"state"}
	h.restart(true)
	h.insert("d_0", "N", "other")
	const why = "published with another KIND, KEY"
	h.eventually("readiness says why", func() bool { return strings.Contains(fmt.Sprint(h.app.Daemon().Ready(t.Context())), why) })
	h.eventually("its shards say why", func() bool {
		stream := h.app.Daemon().Status().Streams[0]
		return stream.CatchUp.Error != "" && strings.Contains(string(stream.CatchUp.Error), why) &&
			stream.Shards[0].State == "stopped" && stream.Shards[0].LastError != "" && strings.Contains(string(stream.Shards[0].LastError), why)
	})
	if n := len(h.bus.Messages("x.moves")); n != 1 {
		t.Errorf("%d messages, want 1: %s", n, h.history())
	}
}

// TestAllMessagesHaveExpired: a start without a checkpoint warns that nothing tells of which
// database the messages were; one with its checkpoint knows.
func TestAllMessagesHaveExpired(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, "x.moves")
	h.insert("d_0", "M", "active")
	h.published("M", "active")
	h.insert("d_1", "N", "active")
	h.published("N", "active")
	h.bus.Expire("x.moves", 2)
	warns := func() bool {
		return strings.Contains(h.log.String(), `level=WARN msg="all messages of the stream have expired: whether this is the database that they were read from is not known" stream=moves`)
	}
	ready := func() bool { return len(h.app.Daemon().Ready(t.Context())) == 0 }
	h.restart(false)
	h.eventually("it is ready with its checkpoint", ready)
	if warns() {
		t.Error("it warns though the checkpoint knows the tables")
	}
	h.restart(true)
	h.eventually("it warns without its checkpoint", warns)
	h.eventually("it is ready", ready)
}
