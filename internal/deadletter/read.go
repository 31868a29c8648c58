package deadletter

import (
	"context"
	"slices"
	"time"

	"bridge/internal/verify"
	"bridge/sink"
)

// Letter is a dead letter, told once.
type Letter struct {
	// Letter is the newest that is there, without its excerpt.
	sink.Letter
	// First and Last are when the first and the last of them were made, by the clock of bridge's host; zero where they do not tell.
	First, Last time.Time
	// Count is how many there are.
	Count int
}

// Found is what was read.
type Found struct {
	// Letters are in the order in which they were made first.
	Letters []Letter
	// Others counts the messages that are no dead letters.
	Others int
}

// identity tells letters apart.
type identity struct{ stream, shard, event string }

// Read reads bus to its end and returns the letters that want takes; a nil one takes all. Memory: about a KiB a letter.
func Read(ctx context.Context, bus verify.Bus, want func(*sink.Letter) bool, progress func(done, total uint64)) (Found, error) {
	var found Found
	at := make(map[identity]int)
	err := bus.Read(ctx, func(m *verify.Message) error {
		l, err := sink.ParseDeadLetter(m.Value)
		if m.Header.Type != sink.DeadLetterType || err != nil {
			found.Others++
			return nil
		}
		if want != nil && !want(&l) {
			return nil
		}
		l.Excerpt = ""
		made, err := time.Parse(sink.PublishedAtFormat, m.Header.PublishedAt)
		if err != nil {
			made = time.Time{}
		}
		key := identity{l.Stream, l.Shard, l.EventID}
		i, known := at[key]
		if !known {
			i = len(found.Letters)
			at[key] = i
			found.Letters = append(found.Letters, Letter{First: made})
		}
		found.Letters[i].add(l, made)
		return nil
	}, progress)
	if err != nil {
		return Found{}, err
	}
	slices.SortStableFunc(found.Letters, func(a, b Letter) int { return a.First.Compare(b.First) })
	return found, nil
}

// add takes in a letter that was made at a moment.
func (l *Letter) add(letter sink.Letter, made time.Time) {
	l.Count++
	if !made.IsZero() && (l.First.IsZero() || made.Before(l.First)) {
		l.First = made
	}
	if l.Count == 1 || !made.Before(l.Last) {
		// What a small letter had to leave out an earlier one may tell.
		if len(letter.Entity) == 0 {
			letter.Entity = l.Entity
		}
		l.Letter, l.Last = letter, made
	}
}
