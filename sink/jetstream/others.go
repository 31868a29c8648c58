package jetstream

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"bridge/internal/inspect"
	"bridge/sink"
)

// othersWithin is how many of the last messages of a stream are looked at for those of others.
const othersWithin = 1000

// checkOthers finds events of other domains whose streams are named as ours: where their tables
// have the same rows, the events have the same ids.
func (i *inspection) checkOthers(ctx context.Context, stream jetstream.Stream) {
	state := stream.CachedInfo().State
	if i.options.Origin.Domain == "" || state.Msgs == 0 {
		return
	}
	// alone are the domains on subjects of their own, mixed those on subjects of ours.
	alone, mixed := make(map[string]bool), make(map[string]bool)
	_, err := request(ctx, i, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, lastMessages(ctx, stream, state, func(m jetstream.Msg) {
			domain, name := m.Headers().Get(sink.HeaderDomain), m.Headers().Get(sink.HeaderStream)
			switch {
			case domain == "" || domain == i.options.Origin.Domain || !slices.Contains(i.options.Origin.Streams, name):
			case covered(i.options.Published, m.Subject()):
				mixed[domain] = true
			default:
				alone[domain] = true
			}
		})
	})
	if err != nil {
		// Who may not read gets a finding about that.
		return
	}
	subject := "stream " + stream.CachedInfo().Config.Name
	const why = ", of a bridge stream of the same name: two events of different domains may have one id, and only domain and id together are unique"
	if len(mixed) > 0 {
		i.Add(inspect.Warning, inspect.StreamDomains, subject, "has events of the domain "+names(mixed)+" on subjects of this bridge"+why).
			Says("tell them apart by the header %s, or put {domain} into DESTINATION", sink.HeaderDomain)
	} else if len(alone) > 0 {
		i.Add(inspect.Note, inspect.StreamDomains, subject, "has events of the domain "+names(alone)+why).
			Says("let consumers of several domains remember %s and %s together", sink.HeaderDomain, sink.HeaderID)
	}
}

func names(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }

// lastMessages calls each with the headers of the last messages of a stream.
func lastMessages(ctx context.Context, stream jetstream.Stream, state jetstream.StreamState, each func(jetstream.Msg)) error {
	first := state.FirstSeq
	if state.LastSeq-first >= othersWithin {
		first = state.LastSeq - othersWithin + 1
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: first, AckPolicy: jetstream.AckNonePolicy,
		HeadersOnly: true, InactiveThreshold: requestTimeout, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return fmt.Errorf("make a consumer: %w", err)
	}
	messages, err := consumer.FetchNoWait(othersWithin)
	if err != nil {
		return err
	}
	for m := range messages.Messages() {
		each(m)
	}
	return messages.Error()
}
