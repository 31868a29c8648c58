package kafka

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/segmentio/kafka-go/compress"
)

// codec compresses the records of a batch. It is safe for concurrent use.
type codec struct {
	// id is the codec's number in the attributes of a batch; a sink with transactions adds that its
	// batches are of one.
	id int16
	// append adds the compressed form of src to dst; nil leaves records as they are.
	append func(dst, src []byte) ([]byte, error)
}

func newCodec(c Compression) (codec, error) {
	switch c {
	case None:
		return codec{}, nil
	case Gzip:
		return codec{1, streamed(&compress.GzipCodec)}, nil
	case Snappy:
		return codec{2, streamed(&compress.SnappyCodec)}, nil
	case LZ4:
		return codec{3, appendLZ4}, nil
	case Zstd:
		// Two encoders serve all workers; a window of the size of a batch keeps each below 4 MiB.
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return codec{}, fmt.Errorf("kafka: make a zstd encoder: %w", err)
		}
		return codec{4, func(dst, src []byte) ([]byte, error) { return encoder.EncodeAll(src, dst), nil }}, nil
	}
	return codec{}, fmt.Errorf("kafka: unknown compression %q", c)
}

// appender is a writer into a byte slice.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// streamed returns what compresses by a codec of kafka-go.
func streamed(c compress.Codec) func(dst, src []byte) ([]byte, error) {
	return func(dst, src []byte) ([]byte, error) {
		out := &appender{dst}
		w := c.NewWriter(out)
		_, err := w.Write(src)
		err = errors.Join(err, w.Close())
		return out.b, err
	}
}

type lz4State struct {
	out    appender
	writer *lz4.Writer
	err    error
}

var lz4s = sync.Pool{New: func() any {
	s := &lz4State{writer: lz4.NewWriter(nil)}
	// As Java writes them: independent blocks of 64 KiB without checksums (KIP-57); the batch has
	// its own.
	s.err = s.writer.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1))
	return s
}}

func appendLZ4(dst, src []byte) ([]byte, error) {
	s := lz4s.Get().(*lz4State)
	if s.err != nil {
		return dst, s.err
	}
	defer lz4s.Put(s)
	s.out.b = dst
	defer func() { s.out.b = nil }()
	s.writer.Reset(&s.out)
	if _, err := s.writer.Write(src); err != nil {
		return dst, err
	}
	err := s.writer.Close()
	return s.out.b, err
}
