package jetstream

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"bridge/internal/inspect"
	"bridge/internal/option"
)

// checkRoom finds what keeps a stream from taking messages, or from being read.
func (i *inspection) checkRoom(info *jetstream.StreamInfo) {
	c, state := &info.Config, &info.State
	subject := "stream " + c.Name
	edit := fmt.Sprintf("nats --server %s stream edit %s ", i.at, c.Name)
	if c.DiscardNewPerSubject && i.options.Claim == "" {
		i.Add(inspect.Unsafe, inspect.StreamUnusable, subject, fmt.Sprintf("refuses further messages of a subject that has %d (discard_new_per_subject)", c.MaxMsgsPerSubject)).
			Says("make a stream without that").Types("%s", i.create(c.Name+"_2", c.Subjects))
	}
	if limits := limitsOf(c); len(limits) > 0 && c.Discard == jetstream.DiscardNew && !c.DiscardNewPerSubject {
		const why = " and refuses what is new (discard new)"
		full := c.MaxMsgs > 0 && int64(state.Msgs) >= c.MaxMsgs || c.MaxBytes > 0 && int64(state.Bytes)+roomFor >= c.MaxBytes
		severity, what := inspect.Note, "is full one day, at "+strings.Join(limits, " and ")+","+why+": bridge then waits"
		if full {
			severity, what = inspect.Unsafe, "is full"+why
		}
		i.Add(severity, inspect.StreamFull, subject, what).
			Says("increase the limits, purge the stream, or let it discard old").Types("%s--max-msgs=-1 --max-bytes=-1 -f", edit)
	}
	if c.MaxConsumers > 0 && state.Consumers >= c.MaxConsumers {
		i.Add(inspect.Unsafe, inspect.StreamConsumers, subject, fmt.Sprintf("has %d consumers and takes no more (max_consumers): bridge cannot read what its checkpoint lacks", state.Consumers)).
			Says("remove consumers; the limit of a stream cannot be changed").Types("nats --server %s consumer ls %s", i.at, c.Name)
	}
}

// roomFor is how many bytes a message needs, about.
const roomFor = 1024

// checkAccount finds limits of the account that bridge meets.
func (i *inspection) checkAccount(account *jetstream.AccountInfo) {
	if i.account = account.Tier; len(account.Tiers) > 0 {
		i.account = account.Tiers[fmt.Sprintf("R%d", max(i.options.Keeps.Replicas, 1))]
	}
	used := i.account
	limits := used.Limits
	report := func(code inspect.Code, what, remedy string, args ...any) {
		i.Add(inspect.Unsafe, code, "account", what).Says(remedy, args...).Types("nats --server %s account info", i.at)
	}
	const storage = ": its limit for storage is used up"
	switch {
	case limits.MaxStore > 0 && used.Store+roomFor >= uint64(limits.MaxStore) && !i.options.Keeps.Memory:
		report(inspect.StreamFull, "takes no more messages"+storage, "increase the limit of the account, or remove messages")
	case limits.MaxMemory > 0 && used.Memory+roomFor >= uint64(limits.MaxMemory) && i.options.Keeps.Memory:
		report(inspect.StreamFull, "takes no more messages in memory"+storage, "increase the limit of the account, or remove messages")
	}
	if limits.MaxConsumers > 0 && used.Consumers >= limits.MaxConsumers {
		report(inspect.StreamConsumers, fmt.Sprintf("has %d consumers and takes no more: bridge cannot read what its checkpoint lacks", used.Consumers), "increase the limit of the account, or remove consumers")
	}
}

// checkCreation finds limits of the account that keep a stream from being created.
func (i *inspection) checkCreation(subject string) {
	keeps, used := i.options.Keeps, i.account
	limits := used.Limits
	most := limits.StoreMaxStreamBytes
	if keeps.Memory {
		most = limits.MemoryMaxStreamBytes
	}
	report := func(what, remedy string, args ...any) {
		i.Add(inspect.Unsafe, inspect.StreamCreation, subject, "cannot be created: "+what).Says(remedy, args...).Types("nats --server %s account info", i.at)
	}
	switch {
	case limits.MaxStreams > 0 && used.Streams >= limits.MaxStreams:
		report(fmt.Sprintf("the account has %d streams and takes no more", used.Streams), "increase the limit of the account, or remove streams")
	case i.options.Bucket != "":
	case limits.MaxBytesRequired && keeps.MaxBytes == 0:
		report("the account wants a limit of bytes for each stream", "set %s", option.NATSStreamMaxBytes)
	case most > 0 && (keeps.MaxBytes == 0 || keeps.MaxBytes > most):
		report(fmt.Sprintf("the account takes streams of at most %d bytes", most), "set %s to that or less", option.NATSStreamMaxBytes)
	}
}
