package app

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	storememory "bridge/checkpoint/store/memory"
	"bridge/internal/httpapi"
)

// TestReadinessOfAStreamThatCatchesUp: with a bus that cannot be read, and once another process has
// taken over.
func TestReadinessOfAStreamThatCatchesUp(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, "x.moves")
	h.insert("d_0", "M", "active")
	h.published("M", "active")
	ready := func() string { return fmt.Sprint(h.app.Daemon().Ready(t.Context())) }
	h.eventually("it is ready", func() bool { return ready() == "[]" })
	epoch := h.app.Daemon().Status().Epoch

	older := h.app
	stop := h.stop
	h.store = storememory.New()
	h.start()
	defer stop()
	h.insert("d_1", "N", "active")
	h.published("N", "active")
	h.eventually("the younger one is ready", func() bool { return ready() == "[]" })
	younger := h.app.Daemon().Status().Epoch
	if younger <= epoch {
		t.Errorf("epochs %d and then %d", epoch, younger)
	}
	superseded := func() string { return fmt.Sprint(older.Daemon().Ready(t.Context())) }
	h.eventually("the older one knows", func() bool {
		// It publishes, and reads the message of the younger one before its own.
		h.insert("d_0", fmt.Sprint("more ", time.Now().UnixNano()), "active")
		return strings.Contains(superseded(), fmt.Sprint(younger))
	})
	if text := superseded(); !strings.Contains(text, fmt.Sprint(epoch)) || strings.Count(text, "{") != 1 {
		t.Errorf("the older one says %s", text)
	}
	if err := older.Daemon().Live(); err != nil {
		t.Errorf("the older one ends: %v", err)
	}
	var stopped httpapi.StreamStatus
	h.eventually("the shards of the older one have stopped", func() bool {
		stopped = older.Daemon().Status().Streams[0]
		return stopped.State == "stopped" && stopped.Shards[0].State == "stopped" && stopped.Shards[1].State == "stopped"
	})
	// What the older one has published meanwhile comes late: the younger one publishes it again.
	h.eventually("the bus ends with the rows", func() bool { return h.reconciled() == 0 && maps.Equal(h.folded(), h.rows()) })
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
		return stream.CatchUp.Error != nil && strings.Contains(*stream.CatchUp.Error, why) &&
			stream.Shards[0].State == "stopped" && stream.Shards[0].LastError != nil && strings.Contains(*stream.Shards[0].LastError, why)
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
