package workload

import (
	"context"
	"maps"
	"slices"
)

// Change is what happens to entities in one commit.
type Change string

// The changes.
const (
	// Insert brings one entity, InsertMany several in a statement, InsertOld one under an id below
	// those that the table hands out, InsertDead one that is soft-deleted from the first.
	Insert     Change = "insert"
	InsertMany Change = "insert many"
	InsertOld  Change = "insert old"
	InsertDead Change = "insert dead"
	// Replace gives one entity another state and another row, ReplaceSame another row alone,
	// ReplaceMany several of both in a statement, ReplaceOld one under an id below those that the
	// table hands out. ReplaceCrossed is ReplaceMany that waits for a transaction which replaces
	// one of its entities: the newer state has the lower id.
	Replace        Change = "replace"
	ReplaceSame    Change = "replace same"
	ReplaceMany    Change = "replace many"
	ReplaceOld     Change = "replace old"
	ReplaceCrossed Change = "replace crossed"
	// Update changes a state in place, UpdateSilent without a trace in the column modified; Flap
	// goes to and fro between two states.
	Update       Change = "update"
	UpdateSilent Change = "update silent"
	Flap         Change = "flap"
	// Heartbeat changes the column modified alone, or nothing where there is none.
	Heartbeat Change = "heartbeat"
	// SoftDelete flags a row as deleted, Revive undoes that.
	SoftDelete Change = "soft delete"
	Revive     Change = "revive"
	// Delete removes a row. Reinsert removes one and inserts the entity again, in two commits or in
	// one.
	Delete   Change = "delete"
	Reinsert Change = "reinsert"
	// Purge removes the rows of a writer that have the lowest ids.
	Purge Change = "purge"
	// Rename changes a key: the row becomes another entity. Recase changes it to one that some
	// servers compare as equal.
	Rename Change = "rename"
	Recase Change = "recase"
)

// EveryChange returns a mix of all changes, in which entities live about as long as others come.
func EveryChange() map[Change]int {
	return map[Change]int{
		Insert: 6, InsertMany: 1, InsertOld: 1, InsertDead: 1,
		Replace: 6, ReplaceSame: 2, ReplaceMany: 2, ReplaceOld: 1, ReplaceCrossed: 1,
		Update: 14, UpdateSilent: 8, Flap: 12, Heartbeat: 12,
		SoftDelete: 3, Revive: 2, Delete: 3, Reinsert: 3, Purge: 1, Rename: 2, Recase: 2,
	}
}

// runs says what each change does.
var runs = map[Change]func(*stateWriter, context.Context) error{
	Insert:     func(w *stateWriter, ctx context.Context) error { return w.insert(ctx, Insert, 1) },
	InsertMany: func(w *stateWriter, ctx context.Context) error { return w.insert(ctx, InsertMany, 2+w.rng.IntN(6)) },
	InsertOld:  func(w *stateWriter, ctx context.Context) error { return w.insertOld(ctx) },
	InsertDead: func(w *stateWriter, ctx context.Context) error { return w.insertDead(ctx) },

	Replace:        func(w *stateWriter, ctx context.Context) error { return w.replace(ctx, Replace, 1) },
	ReplaceSame:    func(w *stateWriter, ctx context.Context) error { return w.replaceSame(ctx) },
	ReplaceMany:    func(w *stateWriter, ctx context.Context) error { return w.replace(ctx, ReplaceMany, 2+w.rng.IntN(6)) },
	ReplaceOld:     func(w *stateWriter, ctx context.Context) error { return w.replaceOld(ctx) },
	ReplaceCrossed: func(w *stateWriter, ctx context.Context) error { return w.replaceCrossed(ctx) },

	Update:       func(w *stateWriter, ctx context.Context) error { return w.update(ctx, Update, true) },
	UpdateSilent: func(w *stateWriter, ctx context.Context) error { return w.update(ctx, UpdateSilent, false) },
	Flap:         func(w *stateWriter, ctx context.Context) error { return w.flap(ctx) },
	Heartbeat:    func(w *stateWriter, ctx context.Context) error { return w.heartbeat(ctx) },

	SoftDelete: func(w *stateWriter, ctx context.Context) error { return w.setDeleted(ctx, SoftDelete, Live, Tombstone) },
	Revive:     func(w *stateWriter, ctx context.Context) error { return w.setDeleted(ctx, Revive, Tombstone, Live) },
	Delete:     func(w *stateWriter, ctx context.Context) error { return w.remove(ctx) },
	Reinsert:   func(w *stateWriter, ctx context.Context) error { return w.reinsert(ctx) },
	Purge:      func(w *stateWriter, ctx context.Context) error { return w.purge(ctx) },
	Rename:     func(w *stateWriter, ctx context.Context) error { return w.rename(ctx, Rename, w.fresh()) },
	Recase:     func(w *stateWriter, ctx context.Context) error { return w.recase(ctx) },
}

// weighted is a mix in a fixed order, so that a seed always means the same.
type weighted struct {
	changes []Change
	upTo    []int
}

func weigh(mix map[Change]int) weighted {
	var m weighted
	sum := 0
	for _, change := range slices.Sorted(maps.Keys(mix)) {
		sum += mix[change]
		m.changes, m.upTo = append(m.changes, change), append(m.upTo, sum)
	}
	return m
}
