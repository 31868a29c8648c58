package app

import (
	"context"
	"errors"
	"fmt"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/deadletter"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/sink"
)

// Resend sends dead letters of one table again. It returns httpapi.ErrNoStream where the table is
// not configured.
type Resend func(ctx context.Context, request httpapi.ResendRequest) ([]shard.ResendOutcome, error)

// Resent is a dead letter and what became of it.
type Resent struct {
	deadletter.Message
	shard.ResendOutcome
}

// maxResendSize bounds the events of one request, as httpapi.MaxDeadLetters does.
const maxResendSize = 32 << 20

// ResendEach sends dead letters again, a table after the other, and returns them in their order.
// The error is that of ctx.
func ResendEach(ctx context.Context, found []deadletter.Message, dryRun bool, send Resend) ([]Resent, error) {
	all := make([]Resent, len(found))
	var order [][2]string
	tables := make(map[[2]string][]*Resent)
	for i := range found {
		all[i].Message = found[i]
		table := [2]string{found[i].Stream, found[i].Shard}
		if tables[table] == nil {
			order = append(order, table)
		}
		tables[table] = append(tables[table], &all[i])
	}
	for _, table := range order {
		if err := resendTable(ctx, tables[table], dryRun, send); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// resendTable sends dead letters of one table, a request after the other. What the owner cannot do
// is left; the error is that of ctx.
func resendTable(ctx context.Context, left []*Resent, dryRun bool, send Resend) error {
	for len(left) > 0 {
		request := httpapi.ResendRequest{Stream: left[0].Stream, Shard: left[0].Shard, DryRun: dryRun}
		n, size := 0, 0
		for n < len(left) && n < httpapi.MaxDeadLetters && (n == 0 || size+left[n].Size <= maxResendSize) {
			request.DeadLetters = append(request.DeadLetters, shard.DeadLetterOf(&left[n].DeadLetterDocument))
			size += left[n].Size
			n++
		}
		outcomes, err := send(ctx, request)
		if err == nil && len(outcomes) != n {
			err = fmt.Errorf("it answers for %s, not %d", terminal.Count(len(outcomes), "dead letter"), n)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			outcome := shard.ResendOutcome{State: shard.ResendLeft, Why: config.Text(err)}
			if errors.Is(err, httpapi.ErrNoStream) {
				outcome.Why = "no such stream and table is configured"
			}
			for _, l := range left {
				l.ResendOutcome = outcome
			}
			return nil
		}
		for i, outcome := range outcomes {
			left[i].ResendOutcome = outcome
		}
		left = left[n:]
	}
	return nil
}

// ResendAll implements httpapi.Daemon.
func (h health) ResendAll(ctx context.Context, name string, dryRun bool) (httpapi.ResentAll, error) {
	stream, err := h.stream(name)
	if err != nil {
		return httpapi.ResentAll{}, err
	}
	if stream.DeadLetter == "" {
		return httpapi.ResentAll{}, fmt.Errorf("stream %s %w: %s is not set, so no row was put aside", name, httpapi.ErrCannotResend, config.Naming("")(option.DeadLetter))
	}
	found, more, err := h.deadLettersOf(ctx, stream)
	if err != nil {
		return httpapi.ResentAll{}, fmt.Errorf("read the dead letters at %s: %w", stream.DeadLetter, err)
	}
	if more && !dryRun {
		// They stay where they are: another request would send the first ones again.
		return httpapi.ResentAll{}, fmt.Errorf("stream %s %w: it has more than %d, type bridge deadletter resend --stream %s", name, httpapi.ErrCannotResend, httpapi.MaxResentAll, name)
	}
	all, err := ResendEach(ctx, found, dryRun, h.Resend)
	if err != nil {
		return httpapi.ResentAll{}, err
	}
	report := httpapi.ResentAll{Found: len(all), More: more, States: make(map[shard.ResendState]int), DeadLetters: []httpapi.ResentDeadLetter{}}
	for i := range all {
		l := &all[i]
		report.States[l.State]++
		if i < httpapi.MaxResentShown {
			report.DeadLetters = append(report.DeadLetters, httpapi.ResentDeadLetter{Shard: l.Shard, Row: l.RowID, Key: l.Key, Reason: l.Reason, ResendOutcome: l.ResendOutcome})
		}
	}
	return report, nil
}

// deadLettersOf reads the dead letters of a stream from the bus, at most httpapi.MaxResentAll.
func (h health) deadLettersOf(ctx context.Context, stream *config.Stream) (found []deadletter.Message, more bool, err error) {
	reading := driver.Reading{Destinations: []string{stream.DeadLetter}, Command: "resend", Running: h.sink}
	deadLetters, err := OpenReading(ctx, h.opts.Config, nil, reading)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, deadLetters.Close()) }()
	type identity struct{ shard, event string }
	kept := make(map[identity]bool)
	read, err := deadletter.Read(ctx, deadLetters, func(l *sink.DeadLetterDocument) bool {
		one := identity{l.Shard, l.EventID}
		switch {
		case l.Stream != stream.Name:
			return false
		case !kept[one] && len(kept) == httpapi.MaxResentAll:
			more = true
			return false
		}
		kept[one] = true
		return true
	}, func(uint64, uint64) {})
	return read.Messages, more, err
}
