package deadletter

import (
	"context"
	"slices"
	"time"

	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
)

// Message is a dead letter with its repeats.
type Message struct {
	// The newest dead letter, without its excerpt.
	sink.DeadLetterDocument
	// First and Last are when the first and the last of them were made, by the clock of bridge's
	// host; zero where unknown.
	First, Last time.Time
	// Count is how many there are.
	Count int
}

// Found is what was read.
type Found struct {
	// Messages are in the order in which they were first made.
	Messages []Message
	// Others counts the messages that are no dead letters.
	Others int
}

// Read reads bus to its end and returns the dead letters that want selects; a nil want selects all.
// Those of another domain than this one are passed over. Each takes about 1 KiB of memory.
func Read(ctx context.Context, bus *verify.Bus, domain string, want func(*sink.DeadLetterDocument) bool, progress func(done, total uint64)) (Found, error) {
	var found Found
	// By stream, shard and event.
	at := make(map[[3]string]int)
	err := bus.Read(ctx, func(m *verify.Message) error {
		l, err := sink.ParseDeadLetter(m.Value)
		if string(m.Header(sink.HeaderType)) != sink.DeadLetterType || err != nil {
			found.Others++
			return nil
		}
		if of := string(m.Header(sink.HeaderDomain)); of != "" && of != domain || want != nil && !want(&l) {
			return nil
		}
		l.Excerpt = ""
		// It is zero where the header is no time.
		made, _ := time.Parse(sink.PublishedAtFormat, string(m.Header(sink.HeaderPublishedAt)))
		key := [3]string{l.Stream, l.Shard, l.EventID}
		i, known := at[key]
		if !known {
			i = len(found.Messages)
			at[key] = i
			found.Messages = append(found.Messages, Message{First: made})
		}
		found.Messages[i].add(l, made)
		return nil
	}, progress)
	if err != nil {
		return Found{}, err
	}
	slices.SortStableFunc(found.Messages, func(a, b Message) int { return a.First.Compare(b.First) })
	return found, nil
}

func (l *Message) add(message sink.DeadLetterDocument, made time.Time) {
	l.Count++
	if !made.IsZero() && (l.First.IsZero() || made.Before(l.First)) {
		l.First = made
	}
	if l.Count == 1 || !made.Before(l.Last) {
		// An earlier one may hold what a shorter one had to leave out.
		if len(message.Entity) == 0 {
			message.Entity = l.Entity
		}
		l.DeadLetterDocument, l.Last = message, made
	}
}
