package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// newRecovery returns what reads the bus, where that can be read back (rule 24), and stops the
// shards of streams that must not publish any more.
func (a *App) newRecovery() *stream.CatchUp {
	cfg, p, streams := a.opts.Config, &a.parts, a.streams
	o := stream.Options{
		Reader: p.reader, Committer: p.committer, Image: p.image, Domain: cfg.DomainID, Log: p.logger, Turn: a.turn(), Over: a.opts.former.superseded,
		Share: cfg.Share.Share,
		Superseded: func(err error) {
			for _, s := range streams {
				s.stop(err)
			}
			select {
			case a.superseded <- err:
			default:
				// An app before this one was superseded already.
			}
		},
		Stopped: func(name string, err error) {
			for _, s := range streams {
				if s.Name == name {
					s.stop(err)
				}
			}
		},
	}
	if bus, ok := p.sink.(sink.Transactional); ok && cfg.Sink.ExactlyOnce {
		o.Fence = bus.Fence
	}
	if p.copies != nil {
		o.Permit = p.generations.Enter
		if fence := o.Fence; fence != nil {
			o.Fence = permitted(p.generations.Permit, fence)
		}
		o.Copy = func(ctx context.Context, stream string) (stream.Copy, error) {
			return copyOf(ctx, p.copies, cfg, cfg.Stream(stream))
		}
	}
	p.admissions = newAdmissions(cfg, p, streams)
	if p.reader != nil {
		o.Confirm = p.admissions.confirm
	}
	if confirm := o.Confirm; p.copies != nil && cfg.Share.One() {
		o.Alone = p.generations.Alone
		o.Confirm = func(ctx context.Context, stream string, turn bool) error {
			if err := p.generations.ReadFormer(ctx, turn); err != nil {
				return err
			}
			return confirm(ctx, stream, turn)
		}
	}
	for _, s := range streams {
		one := s.catchUp(cfg, p)
		before, published := a.opts.former.published[s.Name]
		one.Ours = published && slices.Equal(before, one.Destinations)
		o.Streams = append(o.Streams, one)
	}
	return stream.New(o)
}

// permitted is fence, of a process that may still work by its number of shares: else one that stood
// still would take over from a process of a later generation before it ends.
func permitted(permit, fence func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := permit(ctx); err != nil {
			return fmt.Errorf("%w: %w", stream.ErrStartAgain, err)
		}
		return fence(ctx)
	}
}

// waitingRemedy is that of a shard that waits for a dependency.
const waitingRemedy = "Bring back what does not answer, or do what the reason says; bridge check says more. The shard then goes on by itself, and nothing is lost."

// remedyOf returns what to do about a shard; it is empty for one that runs.
func remedyOf(s *shard.Status) string {
	switch s.State {
	case shard.Starting:
		return "Nothing while the stream catches up, or while the process waits as a standby. bridge health --ready says what it waits for."
	case shard.Stopped:
		return remedies[s.Cause].of(s.Stream)
	case shard.Waiting:
		return waitingRemedy
	case shard.Paused:
		return fmt.Sprintf("bridge resume %s has all its tables go on, with --table %s this one.", s.Stream, s.Shard)
	case shard.Degraded:
		return remedies[degraded].of(s.Stream)
	}
	return ""
}

const (
	// streamName stands for the name of the stream in a remedy.
	streamName = "{stream}"
	// degraded is the cause of a shard that holds deletes back.
	degraded shard.Cause = "degraded"
)

// remedy is a text with %s where it names a setting, and streamName where it names the stream.
type remedy struct {
	text    string
	setting option.Name
}

func (r remedy) of(stream string) string {
	text := r.text
	if r.setting != "" {
		text = option.Sprintf(config.Naming(stream), text, r.setting)
	}
	return strings.ReplaceAll(text, streamName, stream)
}

// remedies are those of docs/operations.md, "A stream is stopped".
var remedies = map[shard.Cause]remedy{
	shard.CauseMissing:         {text: "Create the table, column or database, or correct the variables that name it. bridge tries again every 10 s."},
	shard.CauseDenied:          {text: "Type the GRANT that the error names. bridge tries again every 10 s."},
	shard.CauseUnfit:           {text: "Change the table or the variables as the error says. bridge tries again every 10 s."},
	shard.CauseIDsReused:       {text: "Check that the table is right. Capability stream: bridge reconcile --allow-deletes {stream} reads it from its first row. Release stream: type the command that the error names where the checkpoint is; a pod without a volume forgets it, unless the checkpoint is on the bus (%s=bus:).", setting: option.CheckpointURL},
	shard.CauseConfiguration:   {text: "Change the variables back, or type the command that the error names."},
	shard.CauseSchema:          {"Increase %s, or give the table its column back.", option.EventVersion},
	shard.CauseBusLost:         {text: "Restart bridge: it reads what the bus still has and publishes the other rows again. If messages have expired, too: stop bridge and type bridge checkpoint rebuild {stream}."},
	shard.CauseBusUnreadable:   {text: "Grant the right to read that the error names, or use another stream of the bus, then restart bridge."},
	shard.CauseSuperseded:      {text: "Find the other bridge with the same streams, end one of the two, and restart the one that is to go on."},
	shard.CauseRefused:         {"Increase the limit of the bus, or set %s to put such rows aside, then restart bridge.", option.DeadLetter},
	shard.CauseDeadLetterLimit: {text: "See with bridge deadletter list what is refused, fix the rows or the bus, then restart bridge."},
	shard.CauseBadValue:        {"Repair the row, or set %s=null, then restart bridge.", option.OnBadValue},
	shard.CauseCheckpoint:      {text: "Restart bridge: it sets the damaged checkpoint aside and reads the bus."},
	shard.CauseOther:           {text: "Do what the error says. If it says nothing to do, restart bridge."},
	degraded: {text: "Look at the table first: was it truncated, restored or exchanged? A dry run names the entities that are gone. " +
		"If the rows were deleted on purpose, allow the deletes (bridge reconcile --allow-deletes {stream})."},
}
