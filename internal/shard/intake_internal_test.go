package shard

import (
	"reflect"
	"testing"

	"bridge/internal/catchup"
	"bridge/internal/published"
	"bridge/sink"
	"bridge/source/ledger"
)

// TestTheNewestMessageOfARowCounts: ids were used again, and messages of the rows before them are
// on the bus. A list that is made of it has the rows that were published last, and what identifies
// them.
func TestTheNewestMessageOfARowCounts(t *testing.T) {
	digest := func(content byte) (d [16]byte) { d[7] = content; return d }
	message := func(row, epoch, since uint64, content byte) *catchup.Message {
		return &catchup.Message{Row: row, Origin: sink.FromTail, State: sink.State{Epoch: epoch, Seq: row, Since: since, Digest: digest(content)}}
	}
	newest := []published.Row{{ID: 1, Content: 4, Identity: 11}, {ID: 2, Content: 5, Identity: 12}}
	for name, c := range map[string]struct {
		newest, want []published.Row
	}{
		"told by the newest messages":  {newest, newest},
		"told by those that were read": {nil, []published.Row{{ID: 1, Content: 4}, {ID: 2, Content: 5}}},
	} {
		for order, messages := range map[string][]*catchup.Message{
			"in order":                           {message(1, 7, 0, 1), message(2, 7, 0, 2), message(3, 7, 0, 3), message(1, 8, 8, 4), message(2, 8, 8, 5)},
			"from another topic-partition first": {message(1, 8, 8, 4), message(2, 8, 8, 5), message(1, 7, 0, 1), message(2, 7, 0, 2), message(3, 7, 0, 3)},
		} {
			t.Run(name+", "+order, func(t *testing.T) {
				in, list := new(Feed).newIntake(0, ledger.Options{}), published.NewLog(100)
				for _, m := range messages {
					in.keep(m)
				}
				in.newest = c.newest
				in.restore(list)
				list.Add(in.recent(list))
				if got := list.Below(10, 10, nil); !reflect.DeepEqual(got, c.want) {
					t.Errorf("%+v, want %+v", got, c.want)
				}
			})
		}
	}
}
