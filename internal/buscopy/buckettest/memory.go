package buckettest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"example.org/bridge/internal/buscopy"
)

// Memory is a buscopy.Bucket in memory. The zero value is empty.
type Memory struct {
	mu      sync.Mutex
	entries []buscopy.Entry
	fail    func(key string) error
	puts    int
}

var _ buscopy.Bucket = (*Memory)(nil)

// Fail has Put, Entries and Delete fail where f returns an error. Put calls it with the key before
// it sets the value, Entries with the prefix.
func (b *Memory) Fail(f func(key string) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = f
}

// Puts counts the values that were set.
func (b *Memory) Puts() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.puts
}

// Entries implements buscopy.Bucket.
func (b *Memory) Entries(ctx context.Context, prefix string) ([]buscopy.Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.failure(ctx, prefix); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(b.entries), func(e buscopy.Entry) bool { return !strings.HasPrefix(e.Key, prefix) }), nil
}

// Follow implements buscopy.Bucket. As on JetStream, what was deleted stays among the entries.
func (b *Memory) Follow(prefix string) func(context.Context) ([]buscopy.Entry, error) {
	var all []buscopy.Entry
	return func(ctx context.Context) ([]buscopy.Entry, error) {
		entries, err := b.Entries(ctx, prefix)
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		deleted := slices.DeleteFunc(all, func(old buscopy.Entry) bool {
			return slices.ContainsFunc(entries, func(e buscopy.Entry) bool { return e.Key == old.Key })
		})
		all = append(deleted, entries...)
		return slices.Clone(all), nil
	}
}

// Put implements buscopy.Bucket.
func (b *Memory) Put(ctx context.Context, key string, value []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.failure(ctx, key); err != nil {
		return err
	}
	b.remove(key)
	b.entries = append(b.entries, buscopy.Entry{Key: key, Value: append([]byte(nil), value...)})
	b.puts++
	return nil
}

// Delete implements buscopy.Bucket.
func (b *Memory) Delete(ctx context.Context, keys []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys {
		if err := b.failure(ctx, key); err != nil {
			return err
		}
		b.remove(key)
	}
	return nil
}

func (b *Memory) remove(key string) {
	b.entries = slices.DeleteFunc(b.entries, func(e buscopy.Entry) bool { return e.Key == key })
}

// failure returns why a call fails. b.mu is held.
func (b *Memory) failure(ctx context.Context, key string) error {
	if err := context.Cause(ctx); err != nil || b.fail == nil {
		return err
	}
	return b.fail(key)
}

// Close implements buscopy.Bucket. What it holds stays.
func (b *Memory) Close() error { return nil }
