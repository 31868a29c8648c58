package bench

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	driverOfMySQL "github.com/go-sql-driver/mysql"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/sink"
	ourJetStream "example.org/bridge/sink/jetstream"
	ourKafka "example.org/bridge/sink/kafka"
	"example.org/bridge/source"
	"example.org/bridge/source/mysql"
	"example.org/bridge/tests/must"
)

// batchRows is BATCH_ROWS of bridge.
const batchRows = 2000

// scan reads a table in the pages of bridge and drops its rows, by the driver itself as bridge
// does, without database/sql above it.
func (r *rig) scan(t testing.TB, of shape, rows int) figures {
	t.Helper()
	table := r.table(t, of, rows, of.name == wide.name)
	config := must.Get(driverOfMySQL.ParseDSN(r.Server.DSN(r.User, r.Password, r.Name)))(t)
	connector := must.Get(driverOfMySQL.NewConnector(config))(t)
	conn := must.Get(connector.Connect(t.Context()))(t)
	defer conn.Close()
	before, count := ownNow(), 0
	for last := uint64(0); ; {
		n, err := scanPage(conn.(driver.QueryerContext), table, &last)
		if count += n; err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	f := before.since(rows)
	if count != rows {
		t.Fatalf("a scan of %d rows, want %d", count, rows)
	}
	r.took[fmt.Sprint("scan", rows)], r.took[fmt.Sprint("allocs", rows)] = f["s"], f["allocs/row"]
	return f
}

func scanPage(conn driver.QueryerContext, table string, last *uint64) (count int, err error) {
	rows, err := conn.QueryContext(context.Background(), fmt.Sprintf("SELECT * FROM %s WHERE id > %d ORDER BY id LIMIT %d", table, *last, batchRows), nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row := make([]driver.Value, len(rows.Columns()))
	for ; ; count++ {
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return count, nil
		} else if err != nil {
			return count, err
		}
		switch id := row[0].(type) {
		case int64:
			*last = uint64(id)
		case uint64:
			*last = id
		case []byte:
			if *last, err = strconv.ParseUint(string(id), 10, 64); err != nil {
				return count, err
			}
		default:
			return count, fmt.Errorf("the id is %v, want a number", id)
		}
	}
}

// spool is the messages that bridge makes of a table, encoded before anything is measured, in one
// piece of memory: those that publish them have no garbage to collect.
type spool struct{ text []byte }

type spooled struct{ kind, id, row, key, value []byte }

func (r *rig) spool(t testing.TB, l load) *spool {
	t.Helper()
	table := r.tableOf(t, l)
	of := fmt.Sprint(l.kind, table)
	if s := r.spools[of]; s != nil {
		return s
	}
	clear(r.spools)
	options := must.Get(mysql.ParseURL(r.URL))(t)
	from := must.Get(mysql.Open(options))(t)
	defer from.Close()
	encoder := must.Get(event.NewEncoder(event.Options{Stream: streamName, Shard: table, Kind: l.kind, Source: r.Name, Table: table}))(t)
	spec := source.Spec{Table: table, ID: "id", Key: []string{"data_center", "revision"}, Created: "gmt_create"}
	if l.kind == event.Capability {
		spec.Deleted, spec.UniqueKey = "deleted", true
	}
	shard, s := from.Shard(spec), new(spool)
	var page source.Page
	var buf []byte
	for q := (source.Query{Limit: batchRows}); ; q.After = page.Rows[len(page.Rows)-1].ID {
		must.OK(t, shard.Read(t.Context(), q, &page))
		if len(page.Rows) == 0 {
			r.spools[of] = s
			return s
		}
		must.OK(t, encoder.Bind(page.Columns))
		for _, row := range page.Rows {
			text, e, err := encoder.Append(buf[:0], event.Row{Row: row, Read: page.Now})
			must.OK(t, err)
			buf = text
			s.add([]byte(e.Type), []byte(e.ID), strconv.AppendUint(nil, row.ID, 10), e.Key, e.Body)
		}
	}
}

func (s *spool) add(parts ...[]byte) {
	for _, part := range parts {
		s.text = append(binary.AppendUvarint(s.text, uint64(len(part))), part...)
	}
}

// The parts of a message lie in the memory of the spool.
func (s *spool) each(do func(m spooled) error) error {
	for rest := s.text; len(rest) > 0; {
		var m spooled
		for _, part := range []*[]byte{&m.kind, &m.id, &m.row, &m.key, &m.value} {
			n, width := binary.Uvarint(rest)
			end := width + int(n)
			*part, rest = rest[width:end:end], rest[end:]
		}
		if err := do(m); err != nil {
			return err
		}
	}
	return nil
}

// message is m as the sinks take it. The name of the shard is of about the usual length.
func (m *spooled) message(destination string, made time.Time) sink.Message {
	id, _ := strconv.ParseUint(string(m.row), 10, 64) // the spool was made of numbers
	return sink.Message{
		Destination: destination, Key: m.key, Value: m.value, ID: string(m.id), Type: string(m.kind), Version: "1.0.0",
		Stream: streamName, Shard: "rows_1000000", RowID: id, Origin: sink.FromTail, Time: made,
		// Most are not the first of their batch.
		State: sink.State{Index: 1},
	}
}

// headers returns the headers of a message like all others; those of its id and row differ.
func headers() (names, values []string) {
	usual := spooled{kind: []byte("BenchPublishedEvent"), id: []byte("01234567-89ab-5def-8123-456789abcdef"), row: []byte("1"), value: []byte("{}")}
	m := usual.message("", time.Now())
	new(sink.Headers).Each(&m, func(name, value string) { names, values = append(names, name), append(values, value) })
	return names, values
}

// publisher is what publishes a spool to a target of a bus. It prepares, calls begin, and returns
// when all is acknowledged.
type publisher struct {
	name    string
	publish func(b *bus, s *spool, target, destination string, begin func()) error
}

func (b *bus) publishers() []publisher {
	if b.Kafka != nil {
		return []publisher{{"library", publishFranz}, {"sink", publishOurs}}
	}
	return []publisher{{"library", publishNATS}, {"sink", publishOurs}}
}

func (r *rig) publish(t testing.TB, l load, by publisher) figures {
	t.Helper()
	s := r.spool(t, l)
	target := r.newName(l.kind)
	// All events of a backlog are of one type.
	destination := strings.ReplaceAll(l.bus.open(t, target), "{type}", "BenchEvent")
	var before own
	must.OK(t, by.publish(l.bus, s, target, destination, func() { before = ownNow() }))
	f := before.since(l.rows)
	if held := l.bus.Count(t, target); held != int64(l.rows) {
		t.Fatalf("%s holds %d messages, want %d", target, held, l.rows)
	}
	// The faster one counts.
	if best := fmt.Sprint("publish", l); r.took[best] == 0 || f["s"] < r.took[best] {
		r.took[best] = f["s"]
	}
	return f
}

// publishOurs publishes through our sink as bridge does for one shard: one batch after the other.
func publishOurs(b *bus, messages *spool, target, destination string, begin func()) (err error) {
	var s sink.Sink
	if b.Kafka != nil {
		s, err = ourKafka.Open(ourKafka.Options{Connection: ourKafka.Connection{Brokers: strings.Split(b.servers, ",")}})
	} else {
		s, err = ourJetStream.Open(ourJetStream.Options{Connection: ourJetStream.Connection{URLs: strings.Split(b.servers, ","), Stream: target}})
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	// A bus answers late that has its hands full.
	for deadline := time.Now().Add(time.Minute); ; _ = backoff.Pause(context.Background(), 100*time.Millisecond) {
		if err := s.Ready(context.Background()); err == nil {
			break
		} else if time.Now().After(deadline) {
			return err
		}
	}
	batch := make([]sink.Message, 0, batchRows)
	send := func() error {
		outcome, err := s.Publish(context.Background(), batch)
		if err == nil && (!outcome.AllAcked() || outcome.Duplicates > 0) {
			err = fmt.Errorf("%d of %d acknowledged, %d of them as repeats", outcome.Acked(), len(batch), outcome.Duplicates)
		}
		batch = batch[:0]
		return err
	}
	begin()
	made := time.Now()
	err = messages.each(func(m spooled) error {
		if batch = append(batch, m.message(destination, made)); len(batch) < batchRows {
			return nil
		}
		made = time.Now()
		return send()
	})
	if err == nil && len(batch) > 0 {
		err = send()
	}
	return err
}

// publishFranz publishes with franz-go: idempotent, acks=all, without compression as bridge by
// default, its batches as they come.
func publishFranz(b *bus, messages *spool, target, _ string, begin func()) error {
	const ring = 1 << 16 // records in memory: more than the client holds at a time
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(b.servers, ",")...), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(ring/2), kgo.DefaultProduceTopic(target), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(context.Background()); err != nil {
		return err
	}
	names, values := headers()
	records := make([]kgo.Record, ring)
	for i := range records {
		for j, name := range names {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: name, Value: []byte(values[j])})
		}
	}
	id, row := slices.Index(names, sink.HeaderID), slices.Index(names, sink.HeaderRowID)
	var failed firstError
	count := 0
	begin()
	_ = messages.each(func(m spooled) error {
		r := &records[count%ring]
		*r = kgo.Record{Key: m.key, Value: m.value, Headers: r.Headers}
		r.Headers[id].Value, r.Headers[row].Value = m.id, m.row
		client.Produce(context.Background(), r, func(_ *kgo.Record, err error) { failed.note(err) })
		count++
		return nil
	})
	return errors.Join(client.Flush(context.Background()), failed.get())
}

// publishNATS publishes with nats.go: message ids, acknowledgements, the same window as our sink.
func publishNATS(b *bus, messages *spool, _, destination string, begin func()) error {
	const window = 1000
	nc, err := nats.Connect(b.servers, nats.Timeout(time.Minute))
	if err != nil {
		return err
	}
	defer nc.Close()
	var failed firstError
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(window),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { failed.note(err) }))
	if err != nil {
		return err
	}
	// The library keeps a message until it is acknowledged.
	names, values := headers()
	pool := make([]nats.Msg, 4*window)
	for i := range pool {
		pool[i].Header = nats.Header{jetstream.MsgIDHeader: {""}}
		for j, name := range names {
			pool[i].Header[name] = []string{values[j]}
		}
	}
	count := 0
	begin()
	err = messages.each(func(m spooled) error {
		one := &pool[count%len(pool)]
		*one = nats.Msg{Subject: destination, Data: m.value, Header: one.Header}
		id := string(m.id)
		one.Header[jetstream.MsgIDHeader][0], one.Header[sink.HeaderID][0], one.Header[sink.HeaderRowID][0] = id, id, string(m.row)
		count++
		_, err := js.PublishMsgAsync(one, jetstream.WithStallWait(time.Minute))
		return err
	})
	if err == nil {
		<-js.PublishAsyncComplete()
	}
	return errors.Join(err, failed.get())
}

type firstError struct{ err atomic.Pointer[error] }

func (f *firstError) note(err error) {
	if err != nil {
		f.err.CompareAndSwap(nil, &err)
	}
}

func (f *firstError) get() error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}
