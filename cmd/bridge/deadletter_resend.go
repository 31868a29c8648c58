package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"

	"bridge/internal/app"
	"bridge/internal/cli"
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

func deadLetterResend(p *process, ctx context.Context, call cli.Call) error {
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
	var sent []app.Resent
	if len(found.Messages) > 0 {
		if sent, err = p.sendDeadLetters(ctx, cfg, bridge, found.Messages, job.dryRun, !job.json); err != nil {
			return interrupted(ctx, err, "what was published stays so, type the command again for the others")
		}
	}
	return p.printSent(sent, job)
}

// sendDeadLetters has a running bridge send dead letters again, or does so itself where nobody
// listens there.
func (p *process) sendDeadLetters(ctx context.Context, cfg *config.Config, bridge *httpapi.Client, found []deadletter.Message, dryRun, show bool) ([]app.Resent, error) {
	status, err := bridge.Working(ctx)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return p.sendAlone(ctx, cfg, found, dryRun, show)
	}
	if err != nil {
		return nil, err
	}
	return app.ResendEach(ctx, found, dryRun, func(ctx context.Context, request httpapi.ResendRequest) ([]shard.ResendOutcome, error) {
		for _, stream := range status.Streams {
			if stream.Name == request.Stream && slices.ContainsFunc(stream.Shards, func(s httpapi.ShardStatus) bool { return s.Shard == request.Shard }) {
				return bridge.Resend(ctx, request)
			}
		}
		return nil, httpapi.ErrNoStream
	})
}

// sendAlone sends dead letters again without a running bridge.
func (p *process) sendAlone(ctx context.Context, cfg *config.Config, found []deadletter.Message, dryRun, show bool) (sent []app.Resent, err error) {
	// Only the streams that have dead letters are opened.
	some := app.Keep(cfg, func(s *config.Stream) bool {
		return slices.ContainsFunc(found, func(l deadletter.Message) bool { return l.Stream == s.Name && slices.Contains(s.Tables, l.Shard) })
	})
	if len(some.Streams) == 0 {
		return app.ResendEach(ctx, found, dryRun, func(context.Context, httpapi.ResendRequest) ([]shard.ResendOutcome, error) {
			return nil, httpapi.ErrNoStream
		})
	}
	line := p.newLine(show)
	defer line.Stop()
	err = p.alone(some, line).DeadLetters(ctx, dryRun, func(ctx context.Context, send app.Resend) (err error) {
		sent, err = app.ResendEach(ctx, found, dryRun, send)
		return err
	})
	return sent, err
}

// printSent prints what became of dead letters. The error says that something is left to do.
func (p *process) printSent(sent []app.Resent, job deadLetterJob) error {
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
