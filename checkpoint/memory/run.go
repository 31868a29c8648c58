package memory

import (
	"bytes"
	"context"

	"bridge/checkpoint"
)

// LoadRun implements checkpoint.Runs.
func (s *Store) LoadRun(ctx context.Context, key checkpoint.Key) (run checkpoint.Run, err error) {
	var form []byte
	if err := s.read(ctx, key, func(kept *shard) { form = kept.run }); err != nil {
		return run, err
	}
	if form == nil {
		return run, notFound(key)
	}
	return checkpoint.DecodeRun(form)
}

// SaveRun implements checkpoint.Runs.
func (s *Store) SaveRun(ctx context.Context, key checkpoint.Key, run checkpoint.Run, absent [][]byte) error {
	if err := run.Check(absent); err != nil {
		return err
	}
	return s.change(ctx, key, func(kept *shard) error {
		kept.run = checkpoint.AppendRun(nil, run)
		if run.Absent == 0 && len(absent) == 0 {
			kept.absent = nil
		}
		for _, entity := range absent {
			kept.absent = append(kept.absent, bytes.Clone(entity))
		}
		return nil
	})
}

// Absent implements checkpoint.Runs.
func (s *Store) Absent(ctx context.Context, key checkpoint.Key, from uint64, limit int, dst [][]byte) ([][]byte, error) {
	err := s.read(ctx, key, func(kept *shard) {
		left := kept.absent[min(from, uint64(len(kept.absent))):]
		for _, entity := range left[:min(limit, len(left))] {
			dst = append(dst, bytes.Clone(entity))
		}
	})
	return dst, err
}
