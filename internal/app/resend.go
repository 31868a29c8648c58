package app

import (
	"context"
	"errors"
	"fmt"

	"bridge/internal/config"
	"bridge/internal/deadletter"
	"bridge/internal/httpapi"
	"bridge/internal/shard"
	"bridge/internal/terminal"
)

// Fates of dead letters besides those of the shard.
const (
	// NotConfigured: no stream or table of that name is configured.
	NotConfigured shard.Fate = "notConfigured"
	// NotSent: the owner of the table could not do it.
	NotSent shard.Fate = "failed"
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
// is the fate of those that are left; the error is that of ctx.
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
			outcome := shard.ResendOutcome{Fate: NotSent, Why: config.Text(err)}
			if errors.Is(err, httpapi.ErrNoStream) {
				outcome = shard.ResendOutcome{Fate: NotConfigured}
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
