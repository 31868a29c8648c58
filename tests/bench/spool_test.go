package bench

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"bridge/event"
	"bridge/sink"
	"bridge/source"
	"bridge/source/mysql"
)

// streamName is the stream of all measurements.
const streamName = "bench"

// The roles of columns.
var keyColumns = []string{"data_center", "revision"}

const createdColumn, deletedColumn = "gmt_create", "deleted"

// spool is a file of the messages that bridge makes of a table, encoded before anything is
// measured.
type spool struct {
	path string
	// rows and events are the mean sizes in bytes.
	rows, events float64
}

// specOf is what bridge reads of a table.
func specOf(kind event.Kind, table string) source.Spec {
	return source.Spec{Table: table, ID: "id", Key: keyColumns, Created: createdColumn, Deleted: deletedOf(kind), UniqueKey: kind == event.Capability}
}

// deletedOf is the DELETED column of a kind of stream: rows of a release stream are facts.
func deletedOf(kind event.Kind) string {
	if kind == event.Capability {
		return deletedColumn
	}
	return ""
}

// encode reads a table as bridge does and writes the events of its rows to a file.
func (b *bench) encode(kind event.Kind, table string, rows int) (s spool) {
	b.t.Helper()
	s.path = filepath.Join(b.t.TempDir(), string(kind)+".spool")
	file, err := os.Create(s.path)
	if err != nil {
		b.t.Fatal(err)
	}
	out := bufio.NewWriterSize(file, 1<<20)
	var count, rowBytes, eventBytes int
	err = b.eachEvent(kind, table, func(p *source.Page, i int, e *event.Event) error {
		if i == 0 {
			rowBytes += p.Bytes
		}
		count++
		eventBytes += len(e.Body)
		b.screen.far(fmt.Sprintf("encoding the events of a %s stream", kind), int64(count), int64(rows))
		return writeParts(out, []byte(e.Type), []byte(e.ID), strconv.AppendUint(nil, p.Rows[i].ID, 10), e.Key, e.Body)
	})
	if err := errors.Join(err, out.Flush(), file.Close()); err != nil {
		b.t.Fatal(err)
	}
	if count != rows {
		b.t.Fatalf("%d events of %d rows", count, rows)
	}
	s.rows, s.events = float64(rowBytes)/float64(count), float64(eventBytes)/float64(count)
	return s
}

// eachEvent calls do for every row of a table, with its page, its position there and its event.
func (b *bench) eachEvent(kind event.Kind, table string, do func(p *source.Page, i int, e *event.Event) error) error {
	encoder, err := event.NewEncoder(event.Options{Stream: streamName, Shard: table, Kind: kind, Source: b.db.name, Table: table})
	if err != nil {
		return err
	}
	from, err := b.openSource()
	if err != nil {
		return err
	}
	defer from.Close()
	shard := from.Shard(specOf(kind, table))
	var page source.Page
	var buf []byte
	for q := (source.Query{Limit: 2000}); ; q.After = page.Rows[len(page.Rows)-1].ID {
		if err := shard.Read(b.t.Context(), q, &page); err != nil {
			return err
		}
		if len(page.Rows) == 0 {
			return nil
		}
		if err := encoder.Bind(page.Columns); err != nil {
			return err
		}
		for i, row := range page.Rows {
			var e event.Event
			if buf, e, err = encoder.Append(buf[:0], event.Row{Row: row, Read: page.Now}); err != nil {
				return err
			}
			if err := do(&page, i, &e); err != nil {
				return err
			}
		}
	}
}

func (b *bench) openSource() (*mysql.Source, error) {
	u, err := url.Parse(b.db.url())
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	return mysql.Open(mysql.Options{
		Host: host, Port: number, User: b.db.reader, Database: b.db.name, Password: func() (string, error) { return readerPassword, nil },
	})
}

func writeParts(out *bufio.Writer, parts ...[]byte) error {
	for _, part := range parts {
		if _, err := out.Write(binary.AppendUvarint(nil, uint64(len(part)))); err != nil {
			return err
		}
		if _, err := out.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// spooled is one message of a spool; its parts lie in the memory of the file.
type spooled struct{ kind, id, row, key, value []byte }

// spoolReader hands out the messages of a spool that is in memory as a whole: what is measured
// touches no file.
type spoolReader struct{ rest []byte }

func openSpool(path string) (*spoolReader, error) {
	content, err := os.ReadFile(path)
	return &spoolReader{content}, err
}

// next returns the next message; false at the end.
func (r *spoolReader) next() (m spooled, ok bool) {
	if len(r.rest) == 0 {
		return m, false
	}
	for _, part := range []*[]byte{&m.kind, &m.id, &m.row, &m.key, &m.value} {
		n, width := binary.Uvarint(r.rest)
		end := width + int(n)
		*part, r.rest = r.rest[width:end:end], r.rest[end:]
	}
	return m, true
}

// message is m as the sinks take it. The name of the shard is of about the usual length.
func (m *spooled) message(destination string, made time.Time) sink.Message {
	id, _ := strconv.ParseUint(string(m.row), 10, 64) // it was written by encode
	return sink.Message{
		Destination: destination, Key: m.key, Value: m.value, ID: string(m.id), Type: string(m.kind), Version: "1.0.0",
		Stream: streamName, Shard: "rows_1000000", RowID: id, Origin: sink.FromTail, Time: made,
		// Most are not the first of their batch.
		State: sink.State{Index: 1},
	}
}

// usual is a message like all others.
var usual = spooled{kind: []byte("BenchPublishedEvent"), id: []byte("01234567-89ab-5def-8123-456789abcdef"), row: []byte("1"), value: []byte("{}")}

// headersOf returns the headers of a message.
func headersOf(m sink.Message) (names, values []string) {
	m.EachHeader(func(name, value string) { names, values = append(names, name), append(values, value) })
	return names, values
}

func TestASpoolHandsOutWhatWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(file)
	for i := range 3 {
		if err := writeParts(out, []byte("T"), []byte("id"), strconv.AppendInt(nil, int64(i), 10), nil, make([]byte, 300*i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(out.Flush(), file.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := openSpool(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		m, ok := r.next()
		if !ok || string(m.row) != strconv.Itoa(i) || string(m.kind) != "T" || len(m.key) != 0 || len(m.value) != 300*i {
			t.Fatalf("message %d: %+v, %t", i, m, ok)
		}
	}
	if _, ok := r.next(); ok {
		t.Error("a fourth message of three")
	}
}
