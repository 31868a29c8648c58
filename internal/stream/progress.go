package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/form"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// hotIDs is how far below the position of a rebuild ids that were not seen are polled (rule 15).
const hotIDs = 100_000

// Progress is how far a shard is published. Make one with Open.
type Progress struct {
	key  store.Key
	opts ledger.Options
	// load returns a part of the ids that are ahead.
	load func(number uint64) ([]byte, error)
	// saved is what is to be saved, but for the position where there is a ledger.
	saved store.Progress
	head  head
	// stored is the head in the store, nil where none counts. former are the parts of notes that
	// the next change removes, clear says that it removes all ids.
	stored []byte
	former []uint64
	clear  bool
	// ledger and ahead are nil where ids have no order.
	ledger *ledger.Ledger
	ahead  *ledger.IDs
	// noted are the rows of facts since the last change, tail the highest of the tail.
	noted []uint64
	tail  uint64
	// count says that a message was met that counts, demanded that the next change demands a
	// reconcile.
	count, demanded bool
	// late is rule 27 in force: ids below low count as published. skip is up to where ids count as
	// published for another reason, skipped up to where they were made so.
	late          bool
	skip, skipped uint64
	// low is that as of the last change.
	low uint64
}

// OpenProgress returns the progress of a shard from what the store has of it: saved, which is zero
// where it has nothing, and its parts, which s is asked for later, too. The error wraps
// ErrDamaged or ledger.ErrDamaged, or is one of the store or of opts.
func OpenProgress(ctx context.Context, s store.Store, key store.Key, saved store.Progress, opts ledger.Options) (*Progress, error) {
	p := &Progress{key: key, saved: saved, head: head{rebuild: true}}
	later := context.WithoutCancel(ctx)
	load := func(kind store.Kind) func(number uint64) ([]byte, error) {
		return func(number uint64) ([]byte, error) {
			for one, err := range s.Parts(later, key, kind, number) {
				if err != nil || one.Number == number {
					return one.Bytes, err
				}
				break
			}
			return nil, fmt.Errorf("%w: part %d is not in the store", ErrDamaged, number)
		}
	}
	opts.MaxBytes = cmp.Or(opts.MaxBytes, 4<<20)
	opts.Load, p.load = load(store.Gaps), load(store.Ahead)
	p.opts = opts
	if opts.Order == source.OrderNone {
		p.head.rebuild = false
		return p, p.noteFormer(ctx, s)
	}
	for one, err := range s.Parts(ctx, key, store.Ahead, 0) {
		if err != nil {
			return nil, err
		}
		if one.Number == 0 {
			if p.head, err = parseHead(one.Bytes); err != nil {
				return nil, err
			}
			p.stored = one.Bytes
		}
		break
	}
	var err error
	if p.ahead, err = ledger.RestoreIDs(opts.MaxBytes, p.load, chunks(s.Parts(ctx, key, store.Ahead, 0))); err != nil {
		return nil, fmt.Errorf("ids ahead: %w", err)
	}
	if p.ledger, err = openLedger(s.Parts(ctx, key, store.Gaps, 0), saved.Position, opts); err != nil {
		return nil, err
	}
	if p.stored == nil {
		p.skip, p.head.trust = saved.Floor, saved.Since > 0
	}
	p.low = lowOf(p.ledger, p.saved.ReconcileDue)
	return p, p.noteFormer(ctx, s)
}

// noteFormer notes what a former version has put beside the progress. The next change removes it.
func (p *Progress) noteFormer(ctx context.Context, s store.Store) (err error) {
	p.former, err = eachNoted(ctx, s, p.key, p.Note)
	return err
}

func openLedger(parts iter.Seq2[store.Part, error], position uint64, opts ledger.Options) (*ledger.Ledger, error) {
	for one, err := range parts {
		if err != nil {
			return nil, err
		}
		if one.Number != 0 {
			break
		}
		return ledger.RestoreParts(opts, position, one.Bytes, chunks(parts))
	}
	return ledger.New(opts, position)
}

func chunks(parts iter.Seq2[store.Part, error]) iter.Seq2[ledger.Chunk, error] {
	return func(yield func(ledger.Chunk, error) bool) {
		for one, err := range parts {
			if (err != nil || one.Number != 0) && !yield(ledger.Chunk{Key: one.Number, Bytes: one.Bytes}, err) {
				return
			}
		}
	}
}

// Note notes a fact about a row of the shard, for the next change. Their order does not matter. A
// dead letter counts as its row (rule 19).
func (p *Progress) Note(row uint64, origin sink.Origin, s *sink.State) {
	if s.Epoch < p.saved.Since {
		return
	}
	if s.Since > p.saved.Since {
		// It forgets what messages of epochs below have told: the store is older than the command
		// (rule 28).
		p.saved = store.Progress{Since: s.Since, Cursor: p.saved.Cursor}
		p.head = head{rebuild: true, trust: true}
		p.empty()
	}
	p.count, p.saved.Started = true, true
	if s.Epoch > p.head.epoch || s.Epoch == p.head.epoch && s.Seq > p.head.seq {
		// Rule 16: the newest message's floor holds.
		p.head.epoch, p.head.seq = s.Epoch, s.Seq
		if s.Floor != p.saved.Floor {
			p.saved.Floor, p.skip = s.Floor, max(p.skip, s.Floor)
		}
	}
	if s.Since == p.saved.Since {
		// Rule 27. Else its process began with a store from before a command (rule 28).
		p.saved.Low = max(p.saved.Low, s.Low)
	}
	if p.ledger == nil || row == 0 {
		return
	}
	if origin == sink.FromTail {
		p.tail = max(p.tail, row)
	}
	p.noted = append(p.noted, row)
}

func (p *Progress) empty() {
	p.noted, p.tail, p.skip, p.skipped = nil, 0, 0, 0
	if p.ledger == nil {
		return
	}
	p.clear, p.stored = true, nil
	// The options were good before.
	p.ledger, _ = ledger.New(p.opts, 0)
	p.ahead = ledger.NewIDs(p.opts.MaxBytes, p.load)
	p.low = lowOf(p.ledger, p.saved.ReconcileDue)
}

// TrustLow has ids below the highest low that was met, or will be, count as published: messages of
// the shard may have expired unread (rule 27). It holds until the progress is opened again.
func (p *Progress) TrustLow() { p.late = true }

// Flush takes in what was noted, has the position of a shard that does not run rise to the highest
// row of the tail, and returns the change for the store. now is the host's clock. A change that the
// store does not take is lost: after that, as after an error, the progress is to be opened again.
func (p *Progress) Flush(now time.Time) (store.ShardChange, error) {
	if p.ledger != nil {
		p.moveTo(p.tail, p.fillGaps(now), now)
		if p.rebuilt() {
			if position := p.ledger.Position(); position > hotIDs {
				p.ledger.EndPolling(position - hotIDs)
			}
		}
	}
	change, err := p.change(now)
	p.low = lowOf(p.ledger, p.saved.ReconcileDue)
	return change, err
}

// rebuilt reports whether the progress is made from messages that were met. Then a reconcile is
// due: it finds what is not polled, and until then the floor holds (rule 16).
func (p *Progress) rebuilt() bool {
	made := p.head.rebuild && p.count
	if made && !p.saved.ReconcileDue {
		p.Demand()
	}
	return made
}

// Follow says that all that the bus held was noted and flushed: what is missed from now on is known
// to be new, and stays polled also where the progress is made from the bus (rule 15).
func (p *Progress) Follow() { p.head.rebuild = false }

// Fill is Flush for a shard that runs, whose owner moves the position: that does not rise but over
// ids that count as published (rules 15, 16 and 27). The time by the ledger's clock stays as it is.
func (p *Progress) Fill(now time.Time) (store.ShardChange, error) {
	p.learn()
	return p.change(now)
}

// learn takes in what was noted, or counts as published, for the next change.
func (p *Progress) learn() {
	if p.fill(time.Time{}); p.rebuilt() {
		p.low = lowOf(p.ledger, true)
	}
}

func (p *Progress) fill(at time.Time) {
	if p.ledger != nil {
		p.ahead.Add(p.fillGaps(at))
	}
}

// fillGaps fills gaps with the noted ids, and returns the ids above the position.
func (p *Progress) fillGaps(now time.Time) []source.Range {
	skip := p.skip
	if low := p.saved.Low; low > 0 && (p.late || p.head.trust) {
		skip = max(skip, low-1)
	}
	if skip > p.skipped {
		all := []source.Range{{First: 1, Last: skip}}
		p.ledger.FillAll(all, now)
		p.ledger.Pass(skip, all, now)
		p.ahead.DropThrough(skip)
		p.skipped = skip
	}
	slices.Sort(p.noted)
	ranges := source.RangesOf(p.noted)
	p.noted = p.noted[:0]
	p.ledger.FillAll(ranges, now)
	return source.RangesAbove(ranges, p.ledger.Position())
}

// moveTo moves the position to through. Of the ids between, those that are neither in handedOver
// nor ahead are missing; what is handed over above is ahead.
func (p *Progress) moveTo(through uint64, handedOver []source.Range, now time.Time) {
	if !p.ahead.AnyThrough(through) {
		p.ledger.Pass(through, handedOver, now)
		p.ahead.Add(source.RangesAbove(handedOver, p.ledger.Position()))
		return
	}
	p.ahead.Add(handedOver)
	for ranges := p.ahead.PopThrough(through); ranges != nil; ranges = p.ahead.PopThrough(through) {
		p.ledger.Pass(ranges[len(ranges)-1].Last, ranges, now)
	}
	p.ledger.Pass(through, nil, now)
}

func (p *Progress) change(now time.Time) (store.ShardChange, error) {
	saved := p.State()
	saved.Saved = now
	c := store.ShardChange{Key: p.key, Progress: &saved}
	for _, number := range p.former {
		c.Parts = append(c.Parts, store.Part{Kind: store.Noted, Number: number})
	}
	p.former = nil
	if p.demanded {
		c.Parts = append(c.Parts, store.Part{Kind: store.Reconcile, Number: store.AnsweringRun})
		p.demanded = false
	}
	if p.ledger == nil {
		return c, nil
	}
	if p.clear {
		c.Clear, p.clear = []store.Kind{store.Gaps, store.Ahead}, false
	}
	for _, chunk := range p.ledger.Changed() {
		c.Parts = append(c.Parts, store.Part{Kind: store.Gaps, Number: chunk.Key, Bytes: chunk.Bytes})
	}
	if head := p.head.appendTo(nil); !slices.Equal(head, p.stored) {
		c.Parts = append(c.Parts, store.Part{Kind: store.Ahead, Bytes: head})
		p.stored = head
	}
	for _, chunk := range p.ahead.Changed() {
		c.Parts = append(c.Parts, store.Part{Kind: store.Ahead, Number: chunk.Key, Bytes: chunk.Bytes})
	}
	return c, p.Err()
}

// Saved says that the store has the last change: memory of parts that it has is freed.
func (p *Progress) Saved() {
	if p.ledger != nil {
		p.ledger.Saved()
		p.ahead.Trim()
	}
}

// Err returns why a part could not be read, nil while there is no such fault.
func (p *Progress) Err() error {
	if p.ledger == nil {
		return nil
	}
	if err := p.ledger.Err(); err != nil {
		return err
	}
	return p.ahead.Err()
}

// ErrDamaged is returned when a part of the progress is damaged. Test with errors.Is.
var ErrDamaged = errors.New("progress is damaged")

// IsDamaged reports whether the progress of a shard is damaged.
func IsDamaged(err error) bool {
	return errors.Is(err, ErrDamaged) || errors.Is(err, ledger.ErrDamaged)
}

const headVersion = 1

// head is the part 0 of the ids that are ahead: what is kept beside store.Progress.
type head struct {
	// rebuild says that the progress is made from the bus and that the shard has not run since:
	// of the ids that were not seen only the highest are polled (rule 15).
	rebuild bool
	// trust says that messages do not count because of since, which only a message told: lows are
	// to be believed, as where messages have expired (rules 27 and 28).
	trust bool
	// epoch and seq are the stamp of the message whose floor holds.
	epoch, seq uint64
}

const (
	rebuildBit = 1 << iota
	trustBit
)

// appendTo appends the form of h: version (1 byte), bits (1 byte), epoch and seq (varints), and the
// CRC-32C over all before (4 bytes, little endian).
func (h head) appendTo(dst []byte) []byte {
	bits := byte(0)
	if h.rebuild {
		bits |= rebuildBit
	}
	if h.trust {
		bits |= trustBit
	}
	return append(dst, form.Seal(form.AppendUints([]byte{headVersion, bits}, h.epoch, h.seq))...)
}

// parseHead reads what appendTo wrote, and nothing else. The error wraps ErrDamaged.
func parseHead(b []byte) (head, error) {
	r := form.Open(b, headVersion)
	bits := r.Bytes(1)
	h := head{epoch: r.Uint(), seq: r.Uint()}
	if err := r.End(); err != nil {
		return head{}, fmt.Errorf("%w: its head: %w", ErrDamaged, err)
	}
	h.rebuild, h.trust = bits[0]&rebuildBit != 0, bits[0]&trustBit != 0
	if string(h.appendTo(nil)) != string(b) {
		return head{}, fmt.Errorf("%w: its head is written in another way", ErrDamaged)
	}
	return h, nil
}
