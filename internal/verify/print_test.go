package verify

import (
	"os"
	"strings"
	"testing"

	"example.org/bridge/tests/must"
)

func TestVerificationForPeople(t *testing.T) {
	report := &Report{
		Messages: 1200, Others: 3, DeadLetters: 1, OtherDomains: []OtherDomain{{"test.\x1b", 5}, {"", 2}},
		Partitions: []Partition{{Name: "orders/0", First: 7, Next: 1207, Expired: true}},
		Foreign:    Finding{Fault: foreign},
		Streams: []Stream{{
			Stream: "orders", Kind: "capability", Shards: 2, Rows: 1000, Events: 1190, Repeats: 1, Live: 990, Behind: 2, Rejected: 1,
			Faults: []Finding{{Fault: otherKey, Count: 1, Examples: []Example{
				{Shard: "orders_01", Event: "1b9f", Stamp: "1f 2a1", Partition: "orders/0", At: 15, What: "the newest message of the stream has the hash 6, the configuration 7"},
			}}, {Fault: lost, Count: 2, Examples: []Example{
				{Shard: "orders_01", Lost: &Lost{"1f", 2, 7, 8}, What: (&Lost{"1f", 2, 7, 8}).describe(900)},
			}}, {Fault: missing, Count: 3, Examples: []Example{
				{Shard: "orders_01", Row: 17, Key: "eu+\x1b[31m", What: "it has no event"},
			}}},
			Unjudged: []Finding{{Reason: young, Count: 1, Examples: []Example{
				{Shard: "orders_00", Row: 18, Event: "1b9f", Partition: "orders/0", At: 12, What: "it came while the check ran"},
			}}, {Reason: removed, Count: 1, Examples: []Example{{Shard: "orders_00", Lost: &Lost{"1f", 0, 3, 3}, What: (&Lost{"1f", 0, 3, 3}).describe(5)}}}},
			Repeated: []Finding{{Repeat: copied, Count: 1, Examples: []Example{
				{Shard: "orders_00", Row: 18, Key: "eu", Event: "1b9f", Stamp: "1f 2a1", Partition: "orders/0", At: 13, What: "it is a copy of an earlier message"},
			}}},
		}},
	}
	const want = `bus: 1200 messages in 1 partition, 3 of other sources, 1 dead letter, 5 of the domain test. , 2 of further domains
    orders/0 begins at 7: what was before has expired
stream orders: capability, 2 tables with 1000 rows; 1190 events, 1 repeat, 990 entities that live
    WRONG: otherKey 1: the stream was published under another KIND, KEY or scope than it is configured with
        orders_01, event 1b9f, stamp 1f 2a1, at orders/0 15: the newest message of the stream has the hash 6, the configuration 7
    WRONG: lost 2: messages that the bus acknowledged and does not hold
        orders_01: messages 7 to 8 of term 2 of epoch 1f are not there; the bus acknowledged 900, counted from 0
    WRONG: missing 3: rows without an event
        orders_01, row 17, key eu+ [31m: it has no event
        and 2 more
        2 of them lie above all rows that were published: is bridge running, and has it caught up?
    of 1 row above an event is a dead letter: bridge deadletter list names it, bridge deadletter resend publishes what is true
    not judged: young 1: rows that came or changed just now
        orders_00, row 18, event 1b9f, at orders/0 12: it came while the check ran
    not judged: removed 1: messages that the bus acknowledged, and may have removed by its own rules
        orders_00: message 3 of term 0 of epoch 1f is not there; the bus acknowledged 5, counted from 0
    repeated, no fault: copy 1: messages with the stamp of an earlier one, of the same event
        orders_00, row 18, key eu, event 1b9f, stamp 1f 2a1, at orders/0 13: it is a copy of an earlier message
`
	if got := report.Text(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n := report.KindsOfFault(); n != 3 {
		t.Errorf("%d kinds of fault", n)
	}
}

func TestEveryFindingHasWords(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/findings.md"))(t)
	for _, of := range findings {
		if of.words == "" || !strings.Contains(string(page), "\n| `"+string(of.Code)+"` | ") {
			t.Errorf("no words for %s, or no row in docs/findings.md", of.Code)
		}
	}
}
