package shard

import (
	"cmp"
	"slices"
	"sync/atomic"

	"bridge/internal/catchup"
	"bridge/internal/progress"
	"bridge/internal/published"
	"bridge/sink"
	"bridge/source/ledger"
)

// intake takes in what catch-up reads of one shard. The lock of its Feed guards it.
type intake struct {
	options ledger.Options
	// progress is that of a shard that does not run, nil while it is not open.
	progress *progress.Progress
	// running says that an owner has the progress.
	running bool
	// noted is what the owner's progress lacks. Where there is a view, rows beyond mostNotes are
	// left out: once read, they are no news by the view.
	noted []note
	view  bool
	// rows are those of the tail that were read, without what identifies them: the newest, at most
	// twice the bound most before they are trimmed.
	rows []published.Row
	most int
	// wishes counts how often a reconcile was wished for, granted is the number of the last wish
	// that was. Both are read without the lock, too.
	wishes, granted atomic.Uint64
	// handed is the last wish that a batch grants which was handed over.
	handed uint64
}

// note is what a message says of the progress.
type note struct {
	row    uint64
	origin sink.Origin
	state  sink.State
}

// newIntake returns the intake of a shard that keeps so many of the rows published last. Read ones
// replace at most half of them: what identifies a row is not on the bus.
func (f *Feed) newIntake(rows int, options ledger.Options) *intake {
	return &intake{options: options, most: max(1, cmp.Or(rows, defaultPublishedRows)/2), view: f.opts.View != nil}
}

// note keeps what a shard that runs, or begins to, needs of a message that was committed.
func (in *intake) note(m *catchup.Message) {
	if m.Origin == sink.FromTail && m.State.Kind == sink.StateLive && !m.Dead {
		in.rows = append(in.rows, published.Row{ID: m.Row, Content: contentOf(m.State.Digest)})
		if len(in.rows) >= 2*in.most {
			in.trim()
		}
	}
	if !in.running {
		return
	}
	n := note{m.Row, m.Origin, m.State}
	if in.view && len(in.noted) >= mostNotes {
		// Invariant 7: the owner may wait for its source or its bus, however long.
		last := &in.noted[len(in.noted)-1]
		if last.row = 0; n.state.Epoch > last.state.Epoch || n.state.Epoch == last.state.Epoch && n.state.Seq > last.state.Seq {
			last.state = n.state
		}
		return
	}
	in.noted = append(in.noted, n)
}

// mostNotes bounds what a shard with a view has to take in, about 150 bytes each.
const mostNotes = 1 << 14

// applyNoted has the progress of the owner take in what was read meanwhile.
func (in *intake) applyNoted(p *progress.Progress) {
	for i := range in.noted {
		n := &in.noted[i]
		p.Note(n.row, n.origin, &n.state)
	}
	in.noted = in.noted[:0]
}

// trim keeps the newest rows, in ascending order.
func (in *intake) trim() {
	slices.SortStableFunc(in.rows, func(a, b published.Row) int { return cmp.Compare(a.ID, b.ID) })
	in.rows = slices.Delete(in.rows, 0, max(0, len(in.rows)-in.most))
}

// recent returns the rows that a list of those published last lacks. What it has of a row that says
// the same stays: it tells the row from another one.
func (in *intake) recent(list *published.Log) []published.Row {
	in.trim()
	rows := slices.DeleteFunc(in.rows, func(r published.Row) bool {
		known := list.Below(r.ID, 1, nil)
		return len(known) == 1 && known[0].ID == r.ID && known[0].Content == r.Content
	})
	in.rows = nil
	return rows
}

// isDue reports whether a reconcile has to follow.
func (in *intake) isDue() bool { return in.wishes.Load() > in.granted.Load() }
