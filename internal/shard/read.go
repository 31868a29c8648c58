package shard

import (
	"context"
	"fmt"
	"time"

	"bridge/internal/failpoint"
	"bridge/source"
)

// read fills s.page, waiting for a source that is away.
func (s *Shard) read(ctx context.Context, q source.Query) error {
	if s.page == nil {
		s.page = pages.Get().(*source.Page)
	}
	err := s.retrier.readSource(ctx, func() error { return s.readInto(ctx, q, s.page) })
	if err != nil {
		s.freePage()
		return err
	}
	return s.greeted()
}

// greeted takes note of an answer of the source in s.page.
func (s *Shard) greeted() error {
	if err := s.bind(s.page.Columns); err != nil {
		s.freePage()
		return err
	}
	s.answered.now, s.answered.at = s.page.Now, s.got
	s.retrier.sourceAnswered()
	if stopped := s.status.polled(s.page.MaxID, s.got); stopped > 0 {
		s.opts.Logger.Info("shard goes on", "after", stopped.Round(time.Millisecond))
	}
	return nil
}

// bind prepares for rows of this shape.
func (s *Shard) bind(columns *source.Columns) error {
	if columns == s.columns {
		return nil
	}
	if err := s.opts.Encoder.Bind(columns); err != nil {
		return fmt.Errorf("%w: %w", source.ErrUnfit, err)
	}
	s.columns = columns
	return nil
}

func (s *Shard) readInto(ctx context.Context, q source.Query, page *source.Page) error {
	err := s.reading(ctx, func() error { return s.readRows(ctx, q, page) })
	if err != nil && q.Ranges == nil && q.Keys == nil && s.published != nil {
		// That a single row cannot be read says nothing about the server.
		s.published.due = true
	}
	return err
}

func (s *Shard) readRows(ctx context.Context, q source.Query, page *source.Page) error {
	named := q.Ranges != nil || q.Keys != nil
	if err := failpoint.At(pointOf(named, failpoint.BeforeRead, failpoint.BeforeReread)); err != nil {
		return err
	}
	began := time.Now()
	err := s.opts.Source.Read(ctx, q, page)
	s.opts.Metrics.queried(s.opts.Stream, queryOf(named), began)
	if err != nil {
		return err
	}
	return failpoint.At(pointOf(named, failpoint.AfterRead, failpoint.AfterReread))
}

func queryOf(named bool) query {
	if named {
		return queryRows
	}
	return queryPage
}

// pointOf tells a page of the tail from a read of rows that something else has named.
func pointOf(named bool, tail, again failpoint.Point) failpoint.Point {
	if named {
		return again
	}
	return tail
}

// reading runs one read in its turn.
func (s *Shard) reading(ctx context.Context, read func() error) error {
	s.dropPrefetched()
	if err := s.retrier.wait(owning, forEver, func() error { return s.opts.Limits.reads.Acquire(ctx, 1) }); err != nil {
		return err
	}
	defer s.opts.Limits.reads.Release(1)
	s.asked = time.Now()
	err := s.retrier.wait(owning, readLimit, read)
	s.got = time.Now()
	return err
}

// readLimit is how long a read may take before the loop counts as standing still; sources give up earlier by themselves.
const readLimit = 2 * time.Minute

func (s *Shard) freePages() {
	s.freePage()
	s.gaps.landing.dropAhead()
	if s.gaps.late != nil {
		s.gaps.late.Reset()
	}
}

func (s *Shard) freePage() {
	if s.page != nil {
		s.page.Reset()
		pages.Put(s.page)
		s.page = nil
	}
}
