package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"

	kafkago "github.com/segmentio/kafka-go"

	"bridge/internal/verify"
)

// Read implements [verify.Bus], one partition after the other.
func (b *Bus) Read(ctx context.Context, each func(*verify.Message) error, progress func(done, total uint64)) error {
	var total, done uint64
	for _, p := range b.partitions {
		var err error
		if _, p.end, err = b.bounds(ctx, p); err != nil {
			return err
		}
		total += uint64(max(p.end-int64(p.Next), 0))
	}
	for i, p := range b.partitions {
		before := p.Next
		if err := b.readTo(ctx, i, each, func(next uint64) { progress(done+next-before, total) }); err != nil {
			return fmt.Errorf("read %s: %w", p.Name, err)
		}
		done += p.Next - before
		progress(done, total)
	}
	return nil
}

// readTo reads a partition to its end.
func (b *Bus) readTo(ctx context.Context, index int, each func(*verify.Message) error, progress func(next uint64)) error {
	p := b.partitions[index]
	r := records{index: index, partition: p, each: each, progress: progress}
	for int64(p.Next) < p.end {
		var answer *kafkago.FetchResponse
		err := b.insist(ctx, "fetch", func() (err error) {
			answer, err = b.fetch(ctx, p, p.Next)
			return err
		})
		if errors.Is(err, errGone) {
			first, _, err := b.bounds(ctx, p)
			if err != nil {
				return err
			}
			p.First, p.Next, p.Expired = uint64(first), max(p.Next, uint64(first)), true
			continue
		}
		if err != nil {
			return err
		}
		n, err := r.decode(answer)
		if err != nil {
			return err
		}
		if n == 0 && answer.HighWatermark >= p.end {
			// What is left has been compacted away, or holds no records.
			p.Next, p.Thinned = uint64(p.end), true
		}
	}
	return nil
}

// errGone says that an offset lies before the log start.
var errGone = errors.New("the records have expired while they were read")

// fetch asks for the records from an offset on. errGone is not retried.
func (b *Bus) fetch(ctx context.Context, p *partition, from uint64) (*kafkago.FetchResponse, error) {
	answer, err := b.client.Fetch(ctx, &kafkago.FetchRequest{
		Topic: p.topic, Partition: p.number, Offset: int64(from), MinBytes: 1, MaxBytes: fetchBytes, MaxWait: fetchWait,
	})
	if err == nil {
		err = answer.Error
	}
	if errors.Is(err, kafkago.OffsetOutOfRange) {
		err = errGone
	}
	return answer, err
}

// records takes in answers.
type records struct {
	index      int
	partition  *partition
	each       func(*verify.Message) error
	progress   func(next uint64)
	key, value []byte
	message    verify.Message
}

// take hands out the records of an answer that were not read yet and returns how many there were.
func (r *records) decode(answer *kafkago.FetchResponse) (n int, err error) {
	p := r.partition
	for int64(p.Next) < p.end {
		record, err := answer.Records.ReadRecord()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && n > 0 {
			// The last batch of an answer may be cut off.
			return n, nil
		}
		if err != nil {
			return n, fmt.Errorf("read a record behind offset %d: %w", p.Next, err)
		}
		// A batch may begin before the offset that was asked for.
		wanted := uint64(record.Offset) >= p.Next && record.Offset < p.end
		if r.message, err = r.read(record); err != nil {
			return n, fmt.Errorf("read the record at offset %d: %w", record.Offset, err)
		}
		if !wanted {
			continue
		}
		if uint64(record.Offset) > p.Next {
			p.Thinned = true
		}
		p.Next = uint64(record.Offset) + 1
		if err := r.each(&r.message); err != nil {
			return n, err
		}
		if n++; n%progressEvery == 0 {
			r.progress(p.Next)
		}
	}
	return n, nil
}

// read copies a record into a message.
func (r *records) read(record *kafkago.Record) (m verify.Message, err error) {
	if r.key, err = readAll(r.key, record.Key); err != nil {
		return m, err
	}
	if r.value, err = readAll(r.value, record.Value); err != nil {
		return m, err
	}
	m = verify.Message{Partition: r.index, At: uint64(record.Offset), Key: r.key, Value: r.value}
	for _, h := range record.Headers {
		m.Header.Set(h.Key, string(h.Value))
	}
	return m, nil
}

// readAll reads b into the memory of buf. The result is never nil.
func readAll(buf []byte, b kafkago.Bytes) ([]byte, error) {
	if b == nil {
		return []byte{}, nil
	}
	n := b.Len()
	if cap(buf) < n || buf == nil {
		buf = make([]byte, n, n+n/4)
	}
	buf = buf[:n]
	_, err := io.ReadFull(b, buf)
	return buf, errors.Join(err, b.Close())
}

// Fetch implements [verify.Bus].
func (b *Bus) Fetch(ctx context.Context, index int, at uint64) (*verify.Message, error) {
	p := *b.partitions[index]
	answer, err := b.fetch(ctx, &p, at)
	if err != nil {
		return nil, fmt.Errorf("fetch offset %d of %s: %w", at, p.Name, err)
	}
	p.Next, p.end = at, int64(at)+1
	var found *verify.Message
	r := records{index: index, partition: &p, each: func(m *verify.Message) error { found = m; return nil }, progress: func(uint64) {}}
	if _, err := r.decode(answer); err != nil {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("fetch offset %d of %s: the broker returned nothing", at, p.Name)
	}
	return found, nil
}
