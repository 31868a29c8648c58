package mysql

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"bridge/source"
)

const (
	// glancesAtOnce is how many glances share a statement at most, glanceConns how many statements are under way at most.
	glancesAtOnce = 100
	glanceConns   = 2
	// glanceLimit bounds a statement of glances on the server, so that one table that is slow or locked holds the others up no longer.
	glanceLimit = 2 * time.Second
	// glanceRefresh is how many times as old as at a page the columns may be: a page comes first, and reads them again, once there is a row.
	glanceRefresh = 10
	// glanceAlone is how long a shard goes without glances after one that was not answered.
	glanceAlone = 10 * time.Second
)

var _ source.Glancer = (*shard)(nil)

// Glance implements source.Glancer: shards of a source that ask while one of them waits go into one statement. Whatever
// keeps that from being answered is left to Read, which knows how to tell it.
func (s *shard) Glance(ctx context.Context, wait time.Duration, p *source.Page) (seen bool, err error) {
	p.Reset()
	if s.shape == nil || s.refreshDue(glanceRefresh) || time.Now().Before(s.alone) {
		return false, nil
	}
	head, err := s.source.glances.ask(ctx, wait, s.query.head)
	if err != nil {
		return false, err
	}
	if head == "" {
		s.alone = time.Now().Add(glanceAlone)
		return false, nil
	}
	p.Columns = s.shape.columns
	// A proxy, or a change of servers, may have brought it elsewhere: only a page may say so.
	return parseHead(head, p) == nil && p.Server == s.answered, nil
}

// glances gathers what the shards of a source ask for. It is safe for concurrent use.
type glances struct {
	source *Source
	// ctx ends with the source.
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	waiting []glance
	// timer takes what waits at due.
	timer *time.Timer
	due   time.Time
	// busy counts the statements under way, flying waits for them.
	busy   int
	flying sync.WaitGroup
}

// glance is one expression, answered with its value, or with "" where the statement failed.
type glance struct {
	expression string
	answer     chan string
}

func (g *glances) open(s *Source) {
	g.source = s
	g.ctx, g.cancel = context.WithCancel(context.Background())
}

// close ends the statements under way; nothing is asked any more.
func (g *glances) close() {
	g.mu.Lock()
	g.cancel()
	g.mu.Unlock()
	g.flying.Wait()
}

// ask returns the value of an expression, "" where it cannot be had, after waiting for others. The error is that of ctx.
func (g *glances) ask(ctx context.Context, wait time.Duration, expression string) (string, error) {
	one := glance{expression, make(chan string, 1)}
	g.add(one, wait)
	limit := time.NewTimer(wait + glanceLimit)
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

// add has one be taken in no more than wait.
func (g *glances) add(one glance, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	due := time.Now().Add(wait)
	g.waiting = append(g.waiting, one)
	if len(g.waiting) > 1 && !due.Before(g.due) {
		return
	}
	g.due = due
	if g.timer == nil {
		g.timer = time.AfterFunc(wait, g.take)
	} else {
		g.timer.Reset(wait)
	}
}

// take has those that wait answered; what finds no connection is taken when one is free.
func (g *glances) take() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiting) > 0 && g.busy < glanceConns && g.ctx.Err() == nil {
		some := slices.Clone(g.waiting[:min(len(g.waiting), glancesAtOnce)])
		g.waiting = slices.Delete(g.waiting, 0, len(some))
		g.busy++
		g.flying.Go(func() {
			g.answer(some)
			g.mu.Lock()
			g.busy--
			overdue := len(g.waiting) > 0 && !time.Now().Before(g.due)
			g.mu.Unlock()
			if overdue {
				g.take()
			}
		})
	}
}

// answer runs one statement for all. Those who asked may have left.
func (g *glances) answer(all []glance) {
	heads, err := g.run(all)
	if err != nil {
		heads = make([]string, len(all))
	}
	for i := range all {
		all[i].answer <- heads[i]
	}
}

var errGlances = errors.New("the answer has not one row for each glance")

// run returns the values of the expressions.
func (g *glances) run(all []glance) ([]string, error) {
	var statement strings.Builder
	for i := range all {
		if i > 0 {
			statement.WriteString(" UNION ALL ")
		}
		// In the form of a page, so that a proxy sends it where it sends pages.
		statement.WriteString("(SELECT " + strconv.Itoa(i) + " AS n, " + all[i].expression + " AS head)")
	}
	// The server's own limit comes first.
	ctx, cancel := context.WithTimeoutCause(g.ctx, glanceLimit+time.Second, errNoAnswer)
	defer cancel()
	heads := make([]string, len(all))
	err := g.source.use(ctx, g.source.brief, func(c conn) error {
		rows := 0
		err := c.query(ctx, statement.String(), func(get func(string) string) {
			if n, err := strconv.Atoi(get("n")); err == nil && n < len(heads) {
				heads[n] = get("head")
				rows++
			}
		})
		if err == nil && rows != len(heads) {
			return errGlances
		}
		return err
	})
	return heads, err
}
