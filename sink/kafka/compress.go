package kafka

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// codec compresses the records of a batch. It is safe for concurrent use.
type codec struct {
	// id is the codec's number in the attributes of a batch.
	id int16
	// append adds the compressed form of src to dst; nil leaves records as they are.
	append func(dst, src []byte) ([]byte, error)
}

func newCodec(c Compression) (codec, error) {
	switch c {
	case None:
		return codec{}, nil
	case Gzip:
		return codec{1, appendGzip}, nil
	case Snappy:
		return codec{2, appendSnappy}, nil
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

type gzipState struct {
	out    appender
	writer *gzip.Writer
}

var gzips = sync.Pool{New: func() any { return &gzipState{writer: gzip.NewWriter(nil)} }}

func appendGzip(dst, src []byte) ([]byte, error) {
	s := gzips.Get().(*gzipState)
	defer gzips.Put(s)
	s.out.b = dst
	defer func() { s.out.b = nil }()
	s.writer.Reset(&s.out)
	if _, err := s.writer.Write(src); err != nil {
		return dst, err
	}
	err := s.writer.Close()
	return s.out.b, err
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

// xerialHeader begins the framing that Java's snappy streams use: magic, version, lowest compatible
// version.
var xerialHeader = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}

const xerialBlock = 32 << 10

var snappyBlocks = sync.Pool{New: func() any { b := make([]byte, snappy.MaxEncodedLen(xerialBlock)); return &b }}

// appendSnappy writes blocks of 32 KiB, each behind its compressed length.
func appendSnappy(dst, src []byte) ([]byte, error) {
	buffer := snappyBlocks.Get().(*[]byte)
	defer snappyBlocks.Put(buffer)
	dst = append(dst, xerialHeader...)
	for len(src) > 0 {
		n := min(len(src), xerialBlock)
		block := snappy.Encode(*buffer, src[:n])
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(block)))
		dst = append(dst, block...)
		src = src[n:]
	}
	return dst, nil
}
