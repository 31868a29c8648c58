package verify_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest/memory"
)

const (
	both event.Kind = "both"
	// histories publishes an entity with four events, one with three of which the last says it is
	// gone, and one with one: the messages 0 to 7, of the rows 1 to 5, 5, and 6 to 7.
	histories = "insert a first; insert b first; replace a second; insert c first; replace b second; replace a third; remove b; replace a fourth"
	// log publishes eight rows of two keys in turn.
	log = "insert a x; insert b x; insert a x; insert b x; insert a x; insert b x; insert a x; insert b x"
	// restarted is a stamped bus that has lost the middle one of three events, in another term.
	restarted = "stamped; insert a first; replace a second; replace a third; cut 1; stamp term=1 acked=0; "
	once      = "stamped; rows 5; once; "
	ended     = "stamped; stamp epoch=7; insert b on; insert a on; remove a; "
	twoRows   = "tables; in 1; silent a y; in 0; "
	topics    = "tables own; in 0; insert a first; insert b first; in 1; insert c first; insert d first; cut 0; "
	document  = `columns value:json; row a|{ "b": 1 }; `
)

// found are scripts for each kind of stream, and for both. They end in what is found: faults, and
// behind a bar what cannot be judged.
var found = map[event.Kind][]struct{ name, script string }{
	event.Capability: {
		{"a clean bus is good", "histories; finds nothing"},
		{"the first message is removed", "histories; cut 0; finds brokenLink 1"},
		{"the last one is removed", "histories; cut 7; finds stale 1"},
		{"the only one is removed", "histories; cut 3; finds missing 1"},
		{"the deleted one is removed", "histories; cut 6; finds extra 1; says extra thing row 5 b at T/0 4"},
		{"the first message is altered", "histories; edit 0 first>firsT; finds altered 1"},
		{"the deleted one is altered", `histories; edit 6 "id":5>"id":4; finds altered 1`},
		{"a blank is added to one", `histories; edit 2 ,"data">, "data"; finds altered 1`},
		{"a link is altered", `histories; edit 2 "target":">"target":"0; finds brokenLink 1, altered 1`},
		{"one is cut short", "histories; short 2; finds brokenLink 1, altered 1"},
		{"the first two of an entity are swapped", "histories; swap 0 2; finds outOfOrder 1"},
		{"the last two are swapped", "histories; swap 5 7; finds stale 1, outOfOrder 1"},
		{"the deleted one comes too early", "histories; swap 4 6; finds extra 1, outOfOrder 1"},
		{"an entity that no row has is added", "histories; insert d first; delete 8; finds extra 1"},
		{"an event that follows nothing is added", "histories; follows c; insert c zeroth; delete 8; swap 3 8; finds outOfOrder 1"},
		{"a message that is not an event", "histories; copy 3; header 8 bridge-stream>; value 8 hello; finds foreign 1"},
		{"a copy is an event of another stream", "histories; copy 3; header 8 bridge-stream>others; finds nothing"},
		{"a repeat ends with an older state", "histories; copy 5; finds stale 1"},
		{"links lead behind the head of an old bus", "histories; cut 0 0; expired; finds  | expired 2"},
		{"histories begin again", "histories; follows a; follows c; publish 7; publish 4; finds  | anew 1"},
		{"a dead letter that others follow", "histories; refuse 2 3; finds  | deadLetter 1; " +
			"counts tombstones=0 events=7 repeats=0 live=2 rejected=0"},
		{"a last dead letter leaves the row stale", "histories; refuse 7 7; finds stale 1; says stale a dead letter; " +
			"counts tombstones=0 events=7 repeats=0 live=2 rejected=1"},
		{"an only dead letter leaves it missing", "histories; refuse 3 4; finds missing 1; says missing a dead letter"},
		{"a deleted dead letter leaves no row", "histories; refuse 6 5; finds extra 1; says extra a dead letter"},
		{"dead letters sent again are in order", "histories; copy 7; copy 7; refuse 7 7; finds nothing"},
		{"an added event follows a dead letter", "insert a first; refuse 0 1; gone a; replace a first; finds  | deadLetter 1"},
		{"a broken link beside a dead letter", "histories; refuse 4 5; cut 5; finds brokenLink 1 | deadLetter 1"},
		{"a dead letter stands for a message", "stamped; insert a first; insert b first; insert c first; refuse 1 2; " +
			"finds missing 1"},
		{"tombstones follow their events", ended + "tombstone; insert a on; finds nothing; " +
			"counts tombstones=1 events=4 repeats=0 live=2 rejected=0"},
		{"tombstones follow nothing else", ended + "insert c on; tombstone; finds altered 1"},
		{"tombstones have the key of their event", ended + "tombstone; key 3 b; finds altered 1"},
		{"a tombstone of a former table", "stamped; insert a first; gone a; tombstone; header 1 bridge-shard>gone; finds nothing"},
		{"tombstones are alone after compaction", ended + "tombstone; cut 1 1; thinned; finds  | removed 2"},
		{"a row that is gone is said to be deleted", "stamped; insert a first; remove a; state 1 kind=tombstone; finds altered 1"},
		{"another key, on a bus without keys", "stamped; rows 3; remove name-0; keyless; finds nothing; state 1 key=name-0; " +
			"state 3 key=name-2; finds altered 2"},
		{"another partition, with a newer event", "stamped; insert a first; replace a second; spread; partition 0 1; " +
			"options destinations=T; finds nothing"},
		{"a deleted event where the one before lies, though a partition was added", "stamped; insert d first; insert f first; remove d; " +
			"spread; partition 0 0; partition 1 1; partition 2 0; options destinations=T; finds nothing"},
		{"another event there", "stamped; insert d first; insert f first; replace d second; " +
			"spread; partition 0 0; partition 1 1; partition 2 0; options destinations=T; finds otherPartition 1"},
		{"a tombstone is proven by its row", "columns gone:int; row a|0; delete 1; row a|1; finds nothing; delete 2; " +
			"finds  | unproven 1"},
		{"a state that its event does not tell", document + `delete 1; row a|{ "b": 2 }; finds  | unproven 1`},
		{"a state that an event from before a column came does not tell", document + `addcolumn more:text; finds nothing; edit 0 1}>2}; ` +
			"finds altered 1 | unproven 1"},
		{"a newer form of the state, where the event does not tell its row", document + "header 0 bridge-state>2 a new form; finds  | newerForm 1; " +
			`update 1 a|{ "b": 2 }; finds stale 1 | unproven 1, newerForm 1`},
		{"a null for a value that cannot be encoded", "columns value:text; row a|\xff; row b|x; finds nothing; delete 1; row a|\xfe; " +
			"finds  | unproven 1; edit 1 \"x\">\"y\"; finds altered 1 | unproven 1"},
		{"keys that are no text", "columns value:text; row \xff|x; row \xfe|x; row \xfd|x; remove \xfd; finds nothing"},
		{"a loss is healed once bridge goes on", restarted + "finds lost 1, brokenLink 1; heals ; insert b first; finds nothing; " +
			"heals lost 1, brokenLink 1; delete 4; finds lost 1, extra 1, brokenLink 1"},
		{"a late message of a former process", "stamped; insert a first; replace a second; keep 1; follows a 0; " +
			"stamp epoch=2f acked=0; replace a third; kept; " +
			"finds stale 1, outOfOrder 1; heals ; replace a fourth; finds nothing; heals outOfOrder 2"},
		{"the order of one process is not healed", "stamped; insert a first; replace a second; replace a third; replace a fourth; " +
			"swap 1 2; finds outOfOrder 1; heals "},
		{"a column and its member are renamed apart", `columns code:int; row a|7; row b|8; columns number:int; fields name number:code; ` +
			"unsent a|7; unsent b|8; finds stale 2 | unproven 2"},
		{"the same, beside one that has NULL there", "columns code:int; row a|7; row b|" + memory.Null + "; columns number:int; fields name number:code; " +
			"unsent a|7; unsent b|" + memory.Null + "; finds stale 1 | unproven 1"},
		{"a column comes, and all events before it have a NULL", "columns code:int note:text; row a|7|" + memory.Null + "; row b|8|" + memory.Null + "; " +
			`addcolumn more:text; finds nothing; edit 0 "code":7>"code":9; finds altered 1`},
		{"FIELDS renames a member, beside one that only its row proves", `columns doc:json code:int; row a|{ "b": 1 }|7; fields name code:number doc; ` +
			`finds nothing; edit 0 "code":7>"code":8; finds altered 1 | unproven 1`},
		// A member of another type is not compared.
		{"INT becomes VARCHAR, beside one that only its row proves", `columns doc:json code:int; row a|{ "b": 1 }|7; fields name code doc; ` +
			`columns doc:json code:text; unsent a|{ "b": 1 }|7; finds  | unproven 1; edit 0 "code":7>"code":8; finds  | unproven 1`},
		// Something that does not fit, the row d, has it look again.
		{"a row that is replaced meanwhile is neither stale nor extra", "insert c first; silent d first; at 2 delete 1, silent c second; at 3 publish 3; finds missing 1"},
		{"rows of one key in two tables, and the bus ends with the first", twoRows + "insert a x; delete 1; silent a x; finds  | twoRows 1; says twoRows " +
			"d_1 row 1 a at T/0 0 stamp : the table d_0 has its key, too, in row 2 / d_0 row 2 a at T/0 0 stamp : the table d_1 has its key, too, in row 1"},
		{"with the second", twoRows + "insert a y; delete 1; silent a x; finds  | twoRows 1"},
		{"with neither", twoRows + "insert a z; delete 1; silent a x; finds stale 1 | twoRows 1"},
		{"the first of them goes meanwhile", twoRows + "insert a y; delete 1; silent a x; at 2 in 0, delete 2; finds nothing"},
		{"the first of them goes, and the bus ends with neither", twoRows + "insert a z; delete 1; silent a x; at 2 in 0, delete 2; finds stale 1"},
		{"the second one goes meanwhile", twoRows + "insert a x; delete 1; silent a x; at 2 in 1, delete 1; finds nothing"},
		{"the second one goes, and the bus ends with neither", twoRows + "insert a z; delete 1; silent a x; at 2 in 1, delete 1; finds stale 1"},
		{"a row gets the key of another at the last look", "tables; in 1; silent b x; in 0; insert a x; " +
			"at 4 in 0, delete 1, in 1, update 1 a|x|1.50|2026-03-01 10:20:30.123; finds nothing"},
		{"moved to a table that is no longer configured, and back", "tables; " + moved + "; delete 1; in 0; insert M active; options first; finds nothing"},
		{"of a table that is no longer configured alone", "tables; in 1; insert M active; options first; finds nothing; " +
			"in 0; silent M active; finds nothing; in 0; update 1 M|other|1.50|2026-03-01 10:20:30.123; finds stale 1"},
		{"a loss, with a topic for each table", topics + "topics none; finds lost 1, missing 1"},
		{"a loss, and another topic has expired", topics + "topics d_1; finds lost 1, missing 1"},
		{"a loss, and its topic has expired", topics + "topics d_0; finds  | expired 1, removed 1"},
		{"a loss, and the topic of dead letters has expired", topics + "topics dead; finds missing 1 | removed 1"},
		{"a copy of a long history", "stamped; insert a 0" + strings.Repeat("; replace a 1; replace a 2", 20) + "; copy all; " +
			"finds nothing; repeats copy 41"},
	},
	event.Release: {
		{"a clean bus is good", "log; finds nothing"},
		{"the first message is removed", "log; cut 0; finds missing 1"},
		{"the last one is removed", "log; cut 7; finds missing 1"},
		{"the first message is altered", `log; edit 0 "x">"y"; finds altered 1`},
		{"the last one has another time of its row", "log; edit 7 10:20:30.123>10:20:30.124; finds altered 1"},
		{"one has another id", `log; edit 3 "id":">"id":"_; finds missing 1, altered 1`},
		{"one has another header", "log; header 3 bridge-row-id>77; finds altered 1"},
		{"one has another key", "log; key 3 a; finds altered 1"},
		{"two of a key are swapped", "log; swap 0 2; finds outOfOrder 1"},
		{"two of different keys are swapped", "log; swap 2 3; finds nothing"},
		{"rows of a key in partitions that are read one after the other", "stamped; insert a x; insert a y; spread; partition 0 1; partition 1 0; finds otherPartition 1"},
		{"one that came late is in order", "log; header 2 bridge-origin>late; swap 2 4; finds nothing"},
		{"an event of a row that never was", "log; insert a x; truncate 8; finds extra 1 | purged 8"},
		{"a second event of a row", "log; delete 8; put 8 b y 30; publish 8; finds extra 1"},
		{"rows are purged", "log; delete 2 8; finds  | purged 2"},
		{"a row is changed after its event", "log; delete 4; put 4 b other 30; finds  | changed 1"},
		{"another row has the id, after a failover", "log; delete 4; put 4 b other 31; finds altered 1"},
		{"ids are used again after a failover", "log; lose 5; put 6 z new 31; put 7 z new 31; " +
			"put 8 z new 31; put 9 z new 31; put 10 z new 31; finds missing 2, altered 3"},
		{"rows older than the head of an old bus", "log; cut 0 0 0; expired; finds  | expired 3"},
		{"a row behind that head is missing", "log; cut 0 0 0 2; expired; finds missing 1 | expired 3"},
		{"rows before START=latest", "log; cut 0 0 0; options latest; finds  | notFromBeginning 3"},
		{"rows before the id of START", "log; cut 0 0 0; options after=3; finds  | notFromBeginning 3; options after=2; " +
			"finds missing 1 | notFromBeginning 2"},
		{"what a limit per subject has removed", "log; cut 3; thinned; finds  | thinned 1"},
		{"a row that is published meanwhile is not missing", "silent a x; at 3 publish 1; finds nothing"},
		{"a row that comes at the very end is not judged", "silent a x; at 4 publish 1, silent a x; finds  | young 1"},
		{"messages of another partition that was read before are not lost", "stamped; rows 10; keep 3; keep 3; options rounds=1; " +
			"at 2 kept, insert a first, stamp acked=c, insert b first; finds nothing"},
		{"a mask is lifted", "columns code:masked; row a|****; columns code:int; unsent a|7; row b|8; finds  | changed 1"},
		{"a DATETIME of a zone becomes a TIMESTAMP", "columns at:datetime; zone; row a|2026-03-01 10:20:30; row b|2026-03-01 10:20:30; " +
			"columns at:timestamp; unsent a|2026-03-01 02:20:30; unsent b|2026-03-01 02:20:30; finds  | changed 2"},
		{"none of a whole bus is lost", "stamped; rows 2100; finds nothing"},
		{"a batch that was not acknowledged", "stamped; rows 5; state 3 acked=3 index=0; state 4 acked=3 index=2; " +
			"stamp term=1 acked=0 seq=20; rows 3; finds nothing"},
		{"losses of a bus that expires", "stamped; rows 10; cut 3 2 1 0; delete 1 2 3 4; expired; finds  | removed 4"},
		{"losses of a bus that is thinned", "stamped; rows 10; cut 3 2 1 0; delete 1 2 3 4; thinned; finds  | removed 4"},
		{"losses whose numbers take too much memory", "stamped; rows 10; cut 4; delete 5; options numbers=500; finds  | uncounted 9; " +
			"options numbers=5000; finds lost 1"},
		{"a message without a state", "rows 3; header 1 bridge-state>; finds altered 1; says altered row 2 name-1 at T/0 1 stamp : it has no header bridge-state"},
		{"a table that was renamed", "stamped; rows 4; delete 3; rename thing_0; finds  | renamed 3; " +
			"says renamed thing_0 row 1 name-0 at  0 stamp : its event is of the table's former name thing; " +
			"update 2 name-1|other|1.50|2026-03-01 10:20:30.123; finds missing 1 | renamed 2; " +
			"stamp epoch=2f since=2f acked=0; rows 2; finds missing 1 | renamed 2"},
		{"more events of a former table than the memory holds", "stamped; rows 4; rename thing_0; options numbers=80; finds missing 2 | renamed 2, uncounted 2"},
		{"a repeat under the name of another table", "stamped; rows 3; copy 1; header 3 bridge-shard>gone; finds altered 1; " +
			`says altered thing row 2  at T/0 3 stamp : it is an event of the table, its header bridge-shard is "gone"; ` +
			"header 3 bridge-shard>; finds altered 1"},
		{"a message of another table that is not an event", "stamped; rows 3; copy 1; header 3 bridge-shard>gone; value 3 hello; finds foreign 1; " +
			"value 3 {}; finds foreign 1; header 3 bridge-stream>other; finds nothing"},
		{"states that cannot be read", "stamped; rows 3; header 1 bridge-state>2 a new form; header 2 bridge-state>1 1f 3 0.2; " +
			"finds altered 1 | newerForm 1; says altered thing row 3; says altered bridge-state"},
		{"a newer form of the state, where the event does not tell its row", document + "header 0 bridge-state>2 a new form; finds  | newerForm 1; " +
			`update 1 a|{ "b": 2 }; finds  | changed 1, unproven 1, newerForm 1`},
		{"a column came and left the rest", "columns value:text; row a|x; addcolumn more:text; update 1 a|x|all; finds  | changed 1; " +
			"says changed thing row 1 a at  0 stamp : its event has other columns or types than the table now"},
		{"the same, where events do not tell the row", document + `addcolumn more:text; update 1 a|{ "b": 1 }|all; ` +
			`row b|{ "b": 1 }|all; finds  | unproven 1`},
		{"a column came and went", "insert a x; addcolumn more:text; row b|x|1.50|2026-03-01 10:20:30.123|all; dropcolumn more; " +
			"insert c x; finds  | changed 1"},
		{"a value of another type", `columns code:int; row a|7; row b|7; row c|7; edit 1 "code":7>"code":"7"; finds altered 1; ` +
			`says altered another type`},
		{"a loss of facts is healed while no row can be gone for it", "stamped; rows 5; keep 2; stamp term=1 acked=0; rows 1; " +
			"finds lost 1, missing 1; heals ; " +
			"kept; state 5 term=1 seq=20 acked=1; finds nothing; heals lost 1; cut 5; delete 3; finds lost 1; heals "},
		{"losses are named, though their rows are gone", "stamped; rows 10; stamp term=1 acked=0; rows 10; cut 18 7 4 3; " +
			"delete 19 8 5 4; finds lost 4; " +
			"says lost messages 3 to 4 of term 0 of epoch 1f are not there; says lost message 7 of term 0; " +
			"says lost message 8 of term 1"},
		{"the newest message has another hash", "stamped; stamp hash=6; rows 2; stamp hash=7; rows 2; options hash=7; finds nothing; " +
			"state 1 seq=20; finds otherKey 1; " +
			"says otherKey at T/0 1 stamp 1f 20: the newest message of the stream has the hash 6, the configuration 7"},
	},
	both: {
		{"a member whose name is written otherwise", `stamped; rows 3; edit 1 "name">"n\u0061me"; finds altered 1`},
		{"a row that is there has a reason", "stamped; form row; rows 3; finds nothing; header 1 bridge-reason>X; finds missing 1, altered 1"},
		{"another digest", "stamped; rows 3; state 1 digest; finds altered 1"},
		{"another digest, where the body does not tell its row", `columns value:json; stamped; stamp epoch=7; row a|{ "b": 1 }; ` +
			`row b|{ "b": 1 }; row c|{ "b": 1 }; state 1 digest; finds altered 1`},
		{"a row that is there is said to be gone", "stamped; rows 3; state 1 kind=absent; finds altered 1"},
		{"what an event does not tell, its row does", document + "finds nothing; edit 0 1}>2}; finds altered 1 | unproven 1"},
		{"a copy has the stamp of an earlier message", "stamped; rows 5; copy 3; finds nothing; repeats copy 1; " +
			"says copy thing row 4 name-3 at T/0 5 stamp 1f 4"},
		{"a repeat after a restart has a stamp of its own", "stamped; rows 5; copy 3; copy 4; state 5 epoch=2f seq=0 acked=0; " +
			"state 6 epoch=2f seq=1 acked=1; " +
			"finds nothing; repeats again 2; says again thing row 5 name-4 at T/0 6 stamp 2f 1"},
		{"another event has a stamp that was used", "stamped; rows 5; state 4 seq=2; finds altered 1; " +
			"says altered at T/0 4 stamp 1f 2: another event has its stamp"},
		// Another program need not copy how a message was published.
		{"repeats of exactly-once are faults", once + "copy 3; again 4 1f; again 2 1f once; again 1 2f once; finds repeated 4"},
		{"not of a run with at-least-once", once + "again 2 2f; copy 5; finds nothing; repeats copy 1, again 1"},
		{"not of what was in flight before it", "stamped; rows 5; again 2 2f once; finds nothing; repeats again 1; again 3 3f once; " +
			"finds repeated 1"},
		{"not where checkpoint set asks for them", once + "again 2 2f once; state 5 since=2e; finds nothing"},
		{"not where a person resends dead letters", once + "again 2 2f once; again 2 2f once; again 3 2f once; copy 2; refuse 8 3; " +
			"finds repeated 1; repeats again 2"},
		{"a message in another partition", "stamped; rows 6; spread; options destinations=T; finds nothing; partition 4 1; " +
			"finds otherPartition 1; " +
			"says otherPartition row 5 name-4 at T/1; says otherPartition the partition of its key is 0"},
		{"one from before a partition was added", "stamped; rows 6; spread; partition 0 0; partition 2 0; options destinations=T; " +
			"finds nothing; partition 4 1; finds otherPartition 1"},
	},
}

func TestWhatIsFound(t *testing.T) {
	for kind, scripts := range found {
		kinds := []event.Kind{kind}
		if kind == both {
			kinds = []event.Kind{event.Capability, event.Release}
		}
		for _, c := range scripts {
			for _, one := range kinds {
				t.Run(string(one)+": "+c.name, func(t *testing.T) { play(t, one, c.script) })
			}
		}
	}
}

// TestWhatHasNoTimeYet: a row younger than the stability window is not judged, one without a
// time of its own is waited for.
func TestWhatHasNoTimeYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, event.Release)
		w.insert("a", "x")
		w.table.Insert("a", "x", "1.50", time.Now().UTC().Format("2006-01-02 15:04:05.000"))
		want(t, w.check(func(o *verify.Options) { o.Shards[0].Window = time.Hour }), " | young 1")
		w = newWorld(t, event.Release)
		for range 3 {
			w.publish(w.table.Insert("a", "x", "1.50"))
		}
		w.bus.cut(2)
		want(t, w.check(func(o *verify.Options) { o.Shards[0].Window = 40 * time.Second }), "missing 1")
	})
}

// TestARepeatOfARowWithoutATime was read at another time.
func TestARepeatOfARowWithoutATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := withColumns(t, event.Release, source.Column{Name: "value", Kind: source.Text})
		id := w.table.Insert("a", "x")
		w.publish(id)
		time.Sleep(time.Minute)
		w.publish(id)
		want(t, w.check(), "")
	})
}

func TestColumnsOfAllKindsProveTheirEvents(t *testing.T) {
	for _, c := range []struct {
		column source.Column
		value  string
	}{
		{source.Column{Kind: source.Int}, "-17"},
		{source.Column{Kind: source.Decimal}, "0.10"},
		{source.Column{Kind: source.Float}, "1e+30"},
		{source.Column{Kind: source.Text}, "a\"\\\n\u2028é"},
		{source.Column{Kind: source.Binary}, "\x00\xff"},
		{source.Column{Kind: source.Date}, "2026-02-28"},
		{source.Column{Kind: source.Clock}, "-838:59:59"},
		{source.Column{Kind: source.DateTime, Precision: 6}, "2026-07-01 00:00:00.000001"},
		{source.Column{Kind: source.Timestamp}, "2026-07-01 00:00:00"},
	} {
		c.column.Name = "value"
		t.Run(c.value, func(t *testing.T) {
			w := withColumns(t, event.Release, c.column)
			w.publish(w.table.Insert("a", c.value))
			w.publish(w.table.Insert("b"))
			// An event without its row has to be proven by itself.
			w.table.Delete(1)
			want(t, w.check(), " | purged 1")
		})
	}
}

func TestTypesThatOperationsShare(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.options.Names = map[event.Op]string{event.Added: "ThingMessage", event.Modified: "ThingMessage"}
	w.encoder = w.newEncoder()
	w.replace(w.insert("a", "first"), "a", "second")
	want(t, w.check(), "")
}

func TestMessagesOfOtherDomains(t *testing.T) {
	const foreign = "other.domain"
	ours := func(o *verify.Options) { o.Domain = "bridge" }
	w := stamped(t, event.Capability)
	w.insert("a", "first")
	w.insert("b", "first")
	own := w.bus.messages
	w.bus.messages, w.options.Domain = nil, foreign
	w.encoder, w.stamp.Acked = w.newEncoder(), 100
	clear(w.last)
	w.insert("a", "theirs")
	w.insert("c", "theirs")
	w.insert("d", "theirs")
	w.refuse(2, 5)
	for _, m := range w.bus.messages {
		m.Header[sink.HeaderDomain] = foreign
	}
	w.bus.messages = append(w.bus.messages, own...)
	for id := range uint64(3) {
		w.table.Delete(id + 3)
	}
	w.options.Domain = ""
	r := w.check(ours)
	want(t, r, "")
	if !slices.Equal(r.OtherDomains, []verify.OtherDomain{{Domain: foreign, Messages: 3}}) || r.Others != 0 {
		t.Errorf("%+v, %d others", r.OtherDomains, r.Others)
	}
	// A header of another domain does not hide an event of ours.
	w.bus.messages[4].Header[sink.HeaderDomain] = foreign
	want(t, w.check(ours), "missing 1")
}

// nullable is a table whose unique index takes NULL as its key many times.
type nullable struct {
	source.Shard
	columns *source.Columns
}

func (n *nullable) Read(ctx context.Context, q source.Query, p *source.Page) error {
	err := n.Shard.Read(ctx, q, p)
	if n.columns == nil && err == nil {
		columns := *p.Columns
		columns.NullKey = columns.Key
		n.columns = &columns
	}
	p.Columns = n.columns
	return err
}

// TestRowsWithoutAKey: a version before this one published rows with NULL in their key, and a
// reconcile has deleted them.
func TestRowsWithoutAKey(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.insert("a", "x")
	w.insert(memory.Null, "x")
	table := &nullable{Shard: w.table}
	of := func(o *verify.Options) { o.Shards[0].Source = table }
	want(t, w.check(of), "extra 1")
	w.read, w.previous = time.Now(), w.last[""]
	_, ev, err := w.encoder.AppendAbsent(nil, event.Absent{Key: []byte("%"), ID: 2, Read: w.read, Predecessor: w.previous})
	w.send(ev, 2, err)
	want(t, w.check(of), "")
}
