package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"

	"bridge/internal/app"
	"bridge/internal/config"
	"bridge/internal/deadletter"
	"bridge/internal/httpapi"
	"bridge/internal/shard"
	"bridge/internal/terminal"
)

const deadLetterResendDetails = `
It reads each row again and has the owner of its table publish what is true of
it now: the bridge that runs at BRIDGE_HTTP_ADDR (127.0.0.1:8080); one that
waits as a standby asks the one that works. If nobody listens there, this
command opens source, sink and checkpoint itself and catches up as bridge run
does. Give the bus a higher limit first. Without a flag it is about all dead
letters.

A row of a release stream is published as the same event, with the same id and
bytes, unless it was changed since: then as the fact that it is now. A row that
is gone makes no event. In a capability stream an unchanged row is published as
the same event; else its state is published as a new event that follows the
refused one, or a delete if the row is gone. If a newer event of the entity
followed, nothing is published. A second run publishes the same event again, or
nothing.

  --stream, --shard, --row   only the dead letters of this stream, table or row
  --dry-run                  print what would be published
  --json                     print what became of each dead letter as JSON

Exit status: 0 when nothing is left to do for any dead letter, 1 when something
is, 2 wrong usage or configuration.
`

// Fates of letters besides those of the shard.
const (
	// notConfigured: no stream or table of that name is configured.
	notConfigured shard.Fate = "notConfigured"
	// notSent: the owner of the table could not do it.
	notSent shard.Fate = "failed"
)

// sentDeadLetter is a dead letter and what became of it.
type sentDeadLetter struct {
	deadletter.Message
	shard.ResendOutcome
}

// bytesAtOnce bounds the events of one request, as httpapi.MaxDeadLetters does.
const bytesAtOnce = 32 << 20

func deadLetterResend(p *process, ctx context.Context, call call) error {
	job, err := deadLetterJobOf(call)
	if err != nil {
		return err
	}
	bridge, err := p.newClient()
	if err != nil {
		return err
	}
	cfg, found, err := p.readDeadLetters(ctx, job, "bridge deadletter resend")
	if err != nil {
		return err
	}
	sent := make([]sentDeadLetter, len(found.Messages))
	for i := range sent {
		sent[i].Message = found.Messages[i]
	}
	if len(sent) > 0 {
		if err := p.sendDeadLetters(ctx, cfg, bridge, sent, job); err != nil {
			return interrupted(ctx, err, "what was published stays so, type the command again for the others")
		}
	}
	return p.printSent(sent, job)
}

// sendDeadLetters has a running bridge send letters again, or does it itself where nobody listens
// there.
func (p *process) sendDeadLetters(ctx context.Context, cfg *config.Config, bridge *httpapi.Client, sent []sentDeadLetter, job deadLetterJob) error {
	status, err := bridge.Working(ctx)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return p.sendAlone(ctx, cfg, sent, job)
	}
	if err != nil {
		return err
	}
	there := make(map[[2]string]bool)
	for _, stream := range status.Streams {
		for _, shard := range stream.Shards {
			there[[2]string{stream.Name, shard.Shard}] = true
		}
	}
	return sendThere(ctx, sent, there, job.dryRun, bridge.Resend)
}

// sendAlone sends letters again without a running bridge.
func (p *process) sendAlone(ctx context.Context, cfg *config.Config, sent []sentDeadLetter, job deadLetterJob) error {
	// Only the streams that have letters are opened.
	some := app.Keep(cfg, func(s *config.Stream) bool {
		return slices.ContainsFunc(sent, func(l sentDeadLetter) bool { return l.Stream == s.Name && slices.Contains(s.Tables, l.Shard) })
	})
	there := make(map[[2]string]bool)
	for _, stream := range some.Streams {
		for _, table := range stream.Tables {
			there[[2]string{stream.Name, table}] = true
		}
	}
	if len(there) == 0 {
		return sendThere(ctx, sent, there, job.dryRun, nil)
	}
	line := p.newLine(!job.json)
	defer line.Stop()
	return p.alone(some, line).DeadLetters(ctx, job.dryRun, func(ctx context.Context, send app.Resend) error {
		return sendThere(ctx, sent, there, job.dryRun, send)
	})
}

// sendThere sends the letters of the tables that are there again; the others are not configured.
func sendThere(ctx context.Context, sent []sentDeadLetter, there map[[2]string]bool, dry bool, send app.Resend) error {
	for table, refused := range byTable(sent) {
		if !there[table] {
			setFate(refused, notConfigured, "")
			continue
		}
		if err := sendTable(ctx, refused, dry, send); err != nil {
			return err
		}
	}
	return nil
}

// byTable yields the letters of each table, in the order of the first of each.
func byTable(sent []sentDeadLetter) func(yield func([2]string, []*sentDeadLetter) bool) {
	return func(yield func([2]string, []*sentDeadLetter) bool) {
		var order [][2]string
		groups := make(map[[2]string][]*sentDeadLetter)
		for i := range sent {
			table := [2]string{sent[i].Stream, sent[i].Shard}
			if groups[table] == nil {
				order = append(order, table)
			}
			groups[table] = append(groups[table], &sent[i])
		}
		for _, table := range order {
			if !yield(table, groups[table]) {
				return
			}
		}
	}
}

// setFate gives dead letters one outcome.
func setFate(refused []*sentDeadLetter, fate shard.Fate, why string) {
	for _, l := range refused {
		l.Fate, l.Why = fate, why
	}
}

// sendTable sends the letters of one table, a request after the other. What the owner cannot do is
// the letters' fate; the error is that of ctx.
func sendTable(ctx context.Context, refused []*sentDeadLetter, dry bool, send app.Resend) error {
	for len(refused) > 0 {
		n, size := 0, 0
		for n < len(refused) && n < httpapi.MaxDeadLetters && (n == 0 || size+refused[n].Size <= bytesAtOnce) {
			size += refused[n].Size
			n++
		}
		request := httpapi.ResendRequest{Stream: refused[0].Stream, Shard: refused[0].Shard, DryRun: dry}
		for _, l := range refused[:n] {
			request.DeadLetters = append(request.DeadLetters, shard.DeadLetterOf(&l.Message.DeadLetterDocument))
		}
		outcomes, err := send(ctx, request)
		if err == nil && len(outcomes) != n {
			err = fmt.Errorf("it answers for %s, not %d", terminal.Count(len(outcomes), "dead letter"), n)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			setFate(refused, notSent, config.Text(err))
			return nil
		}
		for i, outcome := range outcomes {
			refused[i].ResendOutcome = outcome
		}
		refused = refused[n:]
	}
	return nil
}

// printSent prints what became of letters. The error says that something is left to do.
func (p *process) printSent(sent []sentDeadLetter, job deadLetterJob) error {
	left := 0
	for i := range sent {
		if !sent[i].Fate.Done() {
			left++
		}
	}
	var err error
	if job.json {
		err = p.printJSON(sentView(sent, job, left == 0))
	} else {
		_, err = io.WriteString(p.stdout, p.secrets.Clean(sentText(sent, job)))
	}
	if left > 0 {
		err = errors.Join(err, fmt.Errorf("something is left to do for %s", terminal.Count(left, "dead letter")))
	}
	return err
}
