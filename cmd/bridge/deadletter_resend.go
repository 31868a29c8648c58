package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"bridge/internal/deadletter"
	"bridge/internal/pipeline"
)

const deadLetterResendDetails = `
Each row is read again and what is true of it now is published, by the one that publishes its table: the bridge that runs at BRIDGE_HTTP_ADDR
(127.0.0.1:8080), or, where nobody listens there, this command, which then opens source, sink and checkpoint itself and catches up as
bridge run does. Raise the limit of the bus first. Without a flag it is about all letters.

A row of a release stream is the same event, with the same id and bytes, unless it was changed since: then it is the fact that it is now. One
that is gone is no event. Of a capability stream the event is the same one where nothing has changed; else its state is published as a new
event, which follows the one that was refused, and a delete where the row is gone. Where a newer event of the entity
followed, nothing is published. Said twice it publishes the same event again, or nothing.

  --stream, --shard, --row  the letters of this stream, table or row alone
  --dry-run                 print what would be published
  --json                    what became of each letter as JSON

Exit status: 0 when nothing is left to do for any letter, 1 when something is, 2 wrong usage or configuration.
`

// Fates of letters besides those of the pipeline.
const (
	// notConfigured: no stream or table of that name is configured.
	notConfigured pipeline.Fate = "notConfigured"
	// notSent: the owner of the table could not do it.
	notSent pipeline.Fate = "failed"
)

// sentLetter is a letter and what became of it.
type sentLetter struct {
	deadletter.Letter
	pipeline.LetterOutcome
}

// postbox sends the letters of one table again.
type postbox func(ctx context.Context, request ResendRequest) ([]pipeline.LetterOutcome, error)

const (
	// lettersAtOnce and bytesAtOnce bound the events of one request.
	lettersAtOnce = 100
	bytesAtOnce   = 32 << 20
)

func deadLetterResend(p *process, ctx context.Context, call call) error {
	job, err := deadLetterJobOf(call)
	if err != nil {
		return err
	}
	addr, err := loadHTTPAddr(p.environ)
	if err != nil {
		return err
	}
	cfg, found, err := p.readDeadLetters(ctx, job, "bridge deadletter resend")
	if err != nil {
		return err
	}
	sent := make([]sentLetter, len(found.Letters))
	for i := range sent {
		sent[i].Letter = found.Letters[i]
	}
	if len(sent) > 0 {
		if err := p.sendLetters(ctx, cfg, addr, sent, job); err != nil {
			return interrupted(ctx, err, "what was published stays so, type the command again for the others")
		}
	}
	return p.printSent(sent, job)
}

// sendLetters has the bridge at addr send letters again, or does it itself where nobody listens there.
func (p *process) sendLetters(ctx context.Context, cfg *Config, addr string, sent []sentLetter, job deadLetterJob) error {
	bridge := &runningBridge{addr: addr}
	status, err := bridge.status(ctx)
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
	for table, letters := range byTable(sent) {
		if !there[table] {
			mark(letters, notConfigured, "")
			continue
		}
		if err := sendTable(ctx, letters, job.dryRun, bridge.resend); err != nil {
			return err
		}
	}
	return nil
}

// byTable yields the letters of each table, in the order of the first of each.
func byTable(sent []sentLetter) func(yield func([2]string, []*sentLetter) bool) {
	return func(yield func([2]string, []*sentLetter) bool) {
		var order [][2]string
		groups := make(map[[2]string][]*sentLetter)
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

// mark gives letters one fate.
func mark(letters []*sentLetter, fate pipeline.Fate, why string) {
	for _, l := range letters {
		l.Fate, l.Why = fate, why
	}
}

// sendTable sends the letters of one table, a request after the other. What the owner cannot do is the letters' fate; the error is that of ctx.
func sendTable(ctx context.Context, letters []*sentLetter, dry bool, send postbox) error {
	for len(letters) > 0 {
		n, size := 0, 0
		for n < len(letters) && n < lettersAtOnce && (n == 0 || size+letters[n].Size <= bytesAtOnce) {
			size += letters[n].Size
			n++
		}
		request := ResendRequest{Stream: letters[0].Stream, Shard: letters[0].Shard, DryRun: dry}
		for _, l := range letters[:n] {
			request.Letters = append(request.Letters, pipeline.LetterOf(&l.Letter.Letter))
		}
		outcomes, err := send(ctx, request)
		if err == nil && len(outcomes) != n {
			err = fmt.Errorf("it answers for %s, not %d", count(len(outcomes), "letter"), n)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			mark(letters, notSent, err.Error())
			return nil
		}
		for i, outcome := range outcomes {
			letters[i].LetterOutcome = outcome
		}
		letters = letters[n:]
	}
	return nil
}

// printSent prints what became of letters. The error says that something is left to do.
func (p *process) printSent(sent []sentLetter, job deadLetterJob) error {
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
		_, err = io.WriteString(p.stdout, p.secrets.clean(sentText(sent, job)))
	}
	if left > 0 {
		err = errors.Join(err, fmt.Errorf("something is left to do for %s", count(left, "letter")))
	}
	return err
}
