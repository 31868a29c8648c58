package shard

import (
	"context"
	"errors"
	"fmt"

	"bridge/checkpoint/store"
	"bridge/internal/progress"
)

// ErrOtherMeaning is returned when the progress of a shard was made with a configuration that gives
// its ids or entities another meaning.
var ErrOtherMeaning = errors.New("the checkpoint was made with another configuration")

// checkMeaning stops the shard where what is saved of it means something else than its
// configuration. It returns the part that says what the configuration means, none where that is
// saved.
func checkMeaning(ctx context.Context, opts *Options, position uint64) ([]store.Part, error) {
	if opts.Meaning == nil {
		return nil, nil
	}
	saved, err := store.LoadMeaning(ctx, opts.Store, opts.key())
	if err != nil {
		return nil, err
	}
	if saved == nil {
		return []store.Part{{Kind: store.MeaningPart, Bytes: store.AppendMeaning(nil, opts.Meaning)}}, nil
	}
	differences := saved.Differences(opts.Meaning)
	if len(differences) == 0 {
		return nil, nil
	}
	reset, goOn := progress.MeaningCommands(opts.key(), saved, position, differences)
	remedy := "put the setting back, or stop bridge, then to have the stream begin at its START again: " + reset
	if goOn != "" {
		remedy += "; to go on behind the rows that were published: " + goOn
	}
	return nil, fmt.Errorf("%w: %s: %s", ErrOtherMeaning, differences, remedy)
}
