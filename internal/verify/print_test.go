package verify

import "testing"

func TestVerificationForPeople(t *testing.T) {
	report := &Report{
		Messages: 1200, Others: 3, DeadLetters: 1,
		Partitions: []PartitionReport{{Partition: "orders/0", First: 7, Next: 1207, Expired: true}},
		Foreign:    Finding{Fault: Foreign},
		Streams: []Stream{{
			Stream: "orders", Kind: "capability", Shards: 2, Rows: 1000, Events: 1190, Repeats: 1, Live: 990, Behind: 2, Rejected: 1,
			Faults: []Finding{{Fault: Missing, Count: 3, Examples: []Example{
				{Shard: "orders_01", Row: 17, Key: "eu+\x1b[31m", What: "it has no event"},
			}}},
			Unjudged: []Doubt{{Reason: Young, Count: 1, Examples: []Example{
				{Shard: "orders_00", Row: 18, Event: "1b9f", Partition: "orders/0", At: 12, What: "it came while the check ran"},
			}}},
		}},
	}
	const want = `bus: 1200 messages in 1 partition, 3 of other sources, 1 dead letter
    orders/0 begins at 7: what was before has expired
stream orders: capability, 2 tables with 1000 rows; 1190 events, 1 repeat, 990 entities that live
    WRONG: missing 3: rows without an event
        orders_01, row 17, key eu+ [31m: it has no event
        and 2 more
        2 of them lie above all rows that were published: is bridge running, and has it caught up?
    of 1 row above an event is a dead letter: bridge deadletter list names it, bridge deadletter resend publishes what is true
    not judged: young 1: rows that came or changed just now
        orders_00, row 18, event 1b9f, at orders/0 12: it came while the check ran
`
	if got := report.Text(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n := report.KindsOfFault(); n != 1 {
		t.Errorf("%d kinds of fault", n)
	}
}

func TestEveryFindingHasWords(t *testing.T) {
	for _, f := range Faults {
		if faultWords[f] == "" {
			t.Errorf("no words for %s", f)
		}
	}
	for _, r := range Reasons {
		if doubtWords[r] == "" {
			t.Errorf("no words for %s", r)
		}
	}
}
