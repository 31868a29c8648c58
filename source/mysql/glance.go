package mysql

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"bridge/source"
)

const (
	// glancesAtOnce is how many glances share a statement at most.
	glancesAtOnce = 100
	// glanceLimit is how long a glance waits for its answer before it is left to a Read.
	glanceLimit = 2 * time.Second
)

var _ source.Glancer = (*shard)(nil)

// Glance implements source.Glancer: shards of a source that ask while one of them waits go into one statement. Whatever
// keeps that from being answered is left to Read, which knows how to tell it.
func (s *shard) Glance(ctx context.Context, wait time.Duration, p *source.Page) (seen bool, err error) {
	p.Reset()
	if s.shape == nil || s.refreshDue() {
		return false, nil
	}
	head, err := s.source.glances.ask(ctx, wait, s.query.head)
	if err != nil || head == "" {
		return false, err
	}
	p.Columns = s.shape.columns
	return true, parseHead(head, p)
}

// glances gathers what the shards of a source ask for. It is safe for concurrent use.
type glances struct {
	source *Source

	mu      sync.Mutex
	waiting []glance
	// timer takes what waits at due.
	timer *time.Timer
	due   time.Time
}

// glance is one expression, answered with its value, or with "" where the statement failed.
type glance struct {
	expression string
	answer     chan string
}

// ask returns the value of an expression, "" where it cannot be had, after waiting for others. The error is that of ctx.
func (g *glances) ask(ctx context.Context, wait time.Duration, expression string) (string, error) {
	one := glance{expression, make(chan string, 1)}
	g.add(one, wait)
	limit := time.NewTimer(glanceLimit)
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

// take has all that wait answered.
func (g *glances) take() {
	g.mu.Lock()
	all := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	if len(all) == 0 {
		// Taken by a timer that was set earlier.
		return
	}
	for len(all) > glancesAtOnce {
		go g.answer(all[:glancesAtOnce])
		all = all[glancesAtOnce:]
	}
	g.answer(all)
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
		statement.WriteString("SELECT " + strconv.Itoa(i) + " AS n, " + all[i].expression + " AS head")
	}
	heads := make([]string, len(all))
	err := g.source.do(context.Background(), g.source.db, func(ctx context.Context, c conn) error {
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
