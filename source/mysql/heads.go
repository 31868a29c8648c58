package mysql

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"bridge/internal/panics"
	"bridge/source"
)

const (
	// headsAtOnce bounds the heads that one statement reads, headConns the statements under way.
	headsAtOnce = 100
	headConns   = 2
	// headTimeout bounds a statement on the server, so that one table that is slow or locked delays
	// the others no longer.
	headTimeout = 2 * time.Second
	// headRefresh is how many times as old as at a page the columns may be: a row makes the shard
	// read a page, which reads the columns again.
	headRefresh = 10
	// headPause is how long a shard reads pages after a head that was not answered.
	headPause = 10 * time.Second
)

var _ source.HeadReader = (*shard)(nil)

// ReadHead implements source.HeadReader. Shards of a source that call it at about the same time
// share a statement. Read reports the errors.
func (s *shard) ReadHead(ctx context.Context, wait time.Duration, p *source.Page) (seen bool, err error) {
	p.Reset()
	if s.shape == nil || s.refreshDue(headRefresh) || time.Now().Before(s.pagesUntil) {
		return false, nil
	}
	head, err := s.source.heads.read(ctx, wait, s.head())
	if err != nil {
		return false, err
	}
	if head == "" {
		s.pagesUntil = time.Now().Add(headPause)
		return false, nil
	}
	p.Columns = s.shape.columns
	// Behind a proxy, or after a change of servers, another server may answer: read a page then.
	return parseHead(head, p) == nil && p.Server == s.answered, nil
}

// headReader reads the heads of the tables of a source, many in one statement. It is safe for
// concurrent use.
type headReader struct {
	logger *slog.Logger
	// query runs one statement; cancel cancels the ones under way.
	query  func([]headQuery) ([]string, error)
	cancel context.CancelFunc

	mu      sync.Mutex
	closed  bool
	waiting []headQuery
	// timer sends the waiting queries at due.
	timer *time.Timer
	due   time.Time
	// busy counts the statements under way, statements waits for them.
	busy       int
	statements sync.WaitGroup
}

// headQuery is one expression, answered with its value, or with "" where the statement failed.
type headQuery struct {
	expression string
	answer     chan string
}

func (r *headReader) open(s *Source) {
	ctx, cancel := context.WithCancel(context.Background())
	r.logger, r.cancel = s.options.Logger, cancel
	r.query = func(all []headQuery) ([]string, error) { return s.queryHeads(ctx, all) }
}

// close cancels the statements under way and waits for them.
func (r *headReader) close() {
	r.mu.Lock()
	r.closed = true
	r.cancel()
	r.mu.Unlock()
	r.statements.Wait()
}

// read returns the value of an expression, "" where the server did not answer, within wait and the
// timeout of a statement. The error is that of ctx.
func (r *headReader) read(ctx context.Context, wait time.Duration, expression string) (string, error) {
	one := headQuery{expression, make(chan string, 1)}
	r.add(one, wait)
	limit := time.NewTimer(wait + headTimeout)
	defer limit.Stop()
	select {
	case head := <-one.answer:
		return head, nil
	case <-limit.C:
		return "", nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// add queues a query to be sent in no more than wait.
func (r *headReader) add(one headQuery, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	due := time.Now().Add(wait)
	r.waiting = append(r.waiting, one)
	if len(r.waiting) > 1 && !due.Before(r.due) {
		return
	}
	r.due = due
	if r.timer == nil {
		r.timer = time.AfterFunc(wait, r.send)
	} else {
		r.timer.Reset(wait)
	}
}

// send sends the waiting queries. Those beyond headConns statements are sent when one has ended.
func (r *headReader) send() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.waiting) > 0 && r.busy < headConns && !r.closed {
		some := slices.Clone(r.waiting[:min(len(r.waiting), headsAtOnce)])
		r.waiting = slices.Delete(r.waiting, 0, len(some))
		r.busy++
		r.statements.Go(func() {
			r.answer(some)
			r.mu.Lock()
			r.busy--
			overdue := len(r.waiting) > 0 && !time.Now().Before(r.due)
			r.mu.Unlock()
			if overdue {
				r.send()
			}
		})
	}
}

// answer runs one statement for all. A caller may have returned by then.
func (r *headReader) answer(all []headQuery) {
	var heads []string
	err := panics.Guard(func() (err error) {
		heads, err = r.query(all)
		return err
	})
	if err != nil {
		if panics.Is(err) {
			r.logger.Error("reading heads failed, pages are read instead", panics.LogArgs(err)...)
		}
		heads = make([]string, len(all))
	}
	for i := range all {
		all[i].answer <- heads[i]
	}
}

var errHeads = errors.New("the answer does not have one row a head")

// queryHeads returns the values of the expressions.
func (s *Source) queryHeads(ctx context.Context, all []headQuery) ([]string, error) {
	var statement strings.Builder
	for i := range all {
		if i > 0 {
			statement.WriteString(" UNION ALL ")
		}
		// In the form of a page, so that a proxy routes it as it routes pages.
		statement.WriteString("(SELECT " + strconv.Itoa(i) + " AS n, " + all[i].expression + " AS head)")
	}
	// The server's own limit comes first.
	ctx, cancel := context.WithTimeoutCause(ctx, headTimeout+time.Second, errNoAnswer)
	defer cancel()
	heads := make([]string, len(all))
	err := s.use(ctx, s.brief, func(c conn) error {
		rows := 0
		err := c.query(ctx, statement.String(), func(get func(string) string) {
			if n, err := strconv.Atoi(get("n")); err == nil && n < len(heads) {
				heads[n] = get("head")
				rows++
			}
		})
		if err == nil && rows != len(heads) {
			return errHeads
		}
		return err
	})
	return heads, err
}
