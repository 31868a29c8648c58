package shard

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"bridge/checkpoint"
	"bridge/internal/failpoint"
	"bridge/sink"
)

// ledgerOff reports whether gaps are left alone, as by a tail without a ledger.
func ledgerOff() bool { return failpoint.Mutant(failpoint.NoLedger) }

// mutantSaveFirst saves the position behind b before it sends b.
func (p *publisher) mutantSaveFirst(ctx context.Context, b *batch) error {
	p.unsaved.acknowledge(b, p.sender.fresh())
	if err := p.flush(); err != nil {
		return err
	}
	_, err := p.sender.sendAll(ctx, b)
	return err
}

// mutantPostpone returns messages without the last one, which it adds to the next batch.
func (p *publisher) mutantPostpone(messages []sink.Message) []sink.Message {
	before, kept := failpoint.Kept.LoadAndDelete(p)
	if n := len(messages) - 1; n > 0 {
		last := messages[n]
		last.Key, last.Value = bytes.Clone(last.Key), bytes.Clone(last.Value)
		failpoint.Kept.Store(p, last)
		messages = messages[:n]
	}
	if kept {
		messages = append(messages, before.(sink.Message))
	}
	return messages
}

// mutantWait merges into request what comes within 3 s or up to the next journal.
func (request *save) mutantWait(in <-chan save) {
	for limit := time.After(3 * time.Second); len(request.state.Journals) == 0; {
		select {
		case newer, open := <-in:
			if !open {
				return
			}
			request.add(newer)
		case <-limit:
			return
		}
	}
}

// mutantRestore gives rows the values that the scan of reconcile saw.
func mutantRestore(key checkpoint.Key, page *page) {
	for i := range page.Rows {
		r := &page.Rows[i]
		if kept, ok := failpoint.Kept.LoadAndDelete(fmt.Sprint(key, r.ID)); ok && len(kept.([][]byte)) == len(r.Values) {
			r.Values = kept.([][]byte)
		}
	}
}

// mutantAlter changes the first value of data in an event.
func mutantAlter(body []byte) {
	data := bytes.Index(body, []byte(`"data":{`))
	if data < 0 {
		return
	}
	from := data + len(`"data":{`)
	colon := bytes.Index(body[from:], []byte(`":`))
	if colon < 0 {
		return
	}
	value := bytes.TrimPrefix(body[from+colon+2:], []byte(`"`))
	if c := value[0]; c >= '1' && c < '9' || c >= 'a' && c < 'z' || c >= 'A' && c < 'Z' {
		value[0]++
	}
}
