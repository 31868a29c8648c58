// Package view decides what the rows of a capability stream are news of, and keeps what was
// published last of each entity (decisions 17 and 18).
//
// One [View] serves all shards of a stream. An entity is the key of its messages. Its entry in
// the store says what its last message said. Where tables have entities of their own
// ([NewByTable]), the table is a part of the stored name; rows and messages are without it.
//
// # A batch
//
// The owner of a shard begins [Claims] for each batch, one batch at a time, has rows decided, makes
// events of those that are news and tells each event's id (Publish). The batch ends with Apply or
// Release:
//
//	c := v.Begin(shard)
//	decisions, err = v.Decide(ctx, c, rows, nil, decisions[:0])
//	decisions[i].Publish(event)              // for each that is news
//	err = v.Apply(ctx, facts, nil, c, commit) // or v.Release(c)
//
// Facts that are read of the bus come in by PrepareFacts and Apply, without claims.
//
// A decision that is news, or that moves an entity to another row, claims the entity. The claim
// holds the entry as it will be: a further row of the batch is decided behind it. Another shard
// that meets a claim, or an entry of another shard, nominates the entity (rule 29). So does a row
// older than the one of its entity (rule 17). A nominated row is not handled: it stays missing
// until a later read finds it in the view.
//
// # Entities that move
//
// [Movers] is the queue of nominated entities. It reserves an entity that nothing claims: until
// the reservation ends, every other row of the entity nominates it again. Then it reads the key
// in all tables, and the owner of the shard that has the row publishes, with permission
// (Permit). That owner reads the row again first, so the order of its reads is still the order
// on the bus (invariant 3). A reservation ends with the batch of that owner.
//
// # Locks
//
// View.mu guards memory. Apply computes under it what facts change, has the store take that
// without it, and installs it under it: what others decide meanwhile is decided as before. Movers
// learns what it waits for once View.mu is free; it calls the View only without Movers.mu. Claims
// have no lock: they belong to the owner of the shard until its batch is handed over, then to the
// publisher. What the view itself writes in them is written under View.mu.
//
// Entries are looked up without the lock. Each change of the store is counted, by the hash of its
// entity, when it is installed; a decision looks up again, under the lock, the entities whose
// count has changed since.
package view
