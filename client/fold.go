package client

import (
	"bytes"
	"encoding/json"

	"example.org/bridge/client/bus"
)

// stamp orders the messages of a stream across TPs: epoch and seq of bridge-state.
type stamp struct{ epoch, seq uint64 }

func (s stamp) before(o stamp) bool {
	return s.epoch < o.epoch || s.epoch == o.epoch && s.seq < o.seq
}

// position is what decides whether a message is newer than the last one of its entity. tp is 0 for
// an entity that is not known, or kept from a bus that is gone: any message is newer.
type position struct {
	tp     uint32
	offset uint64
	// stamp is the highest one that was met of the entity.
	stamp stamp
}

// entity is what the copy holds of one entity. It is never changed, only replaced.
type entity struct {
	said
	body []byte
	at   position
}

type outcome uint8

const (
	// applied: the copy has changed. repeated: it has the event already. older: it is not newer
	// than what the copy has. outdated: it is of another KEY, of before the newest one.
	applied outcome = iota
	repeated
	older
	outdated
	outcomes = iota
)

// fold makes a table of messages. It does no I/O and has no clock. Messages of one TP are to be
// applied in their order; the order between TPs does not matter.
type fold struct {
	entities map[string]*entity
	deleted  deletions
	// tps counts the TPs. Only an entity that may move between TPs needs its deletion remembered.
	tps uint32
	// rebuilding has deletions remembered all the same: those of the copy before are not to last.
	rebuilding bool
	// hash is the hash of the newest message, newest its stamp.
	hash   uint32
	newest stamp
	// merged says that a table has added an entity that another one had.
	merged bool
	// lists are the full lists that TPs have met last.
	lists map[uint32]list
	// changed is told of each change: nil is an entity that is not there.
	changed func(key string, before, after *entity)
}

func newFold(rebuilding bool, changed func(key string, before, after *entity)) *fold {
	return &fold{entities: make(map[string]*entity), deleted: deletions{few: fewDeletions}, rebuilding: rebuilding, lists: make(map[uint32]list), changed: changed}
}

// list is a full list in a TP by its id: from an offset on, and to its end unless that is 0.
type list struct {
	id        string
	from, end uint64
}

// bound takes in a boundary of a full list in a TP. Entities that lie before the beginning drop out
// once all TPs have met the end: till then one may be listed in another TP. Where a TP has no list
// that is at the beginning of the next one. A repeated boundary changes nothing.
func (f *fold) bound(kind, id string, tp uint32, offset uint64, now int64) {
	began := f.lists[tp]
	switch {
	case kind == bus.ListBegins && began.id != id:
		f.dropUnlisted(func(at uint32) bool { return at == tp }, now)
		f.lists[tp] = list{id: id, from: offset}
	case kind != bus.ListBegins && began.id == id && began.end == 0:
		began.end = offset
		f.lists[tp] = began
		ended := uint32(0)
		for _, l := range f.lists {
			if l.id == id && l.end > 0 {
				ended++
			}
		}
		if ended == f.tps {
			f.dropUnlisted(func(uint32) bool { return true }, now)
		}
	}
}

// dropUnlisted drops the entities of TPs that lie before a list that has ended.
func (f *fold) dropUnlisted(of func(tp uint32) bool, now int64) {
	for key, e := range f.entities {
		if l := f.lists[e.at.tp]; l.end > 0 && e.at.offset < l.from && of(e.at.tp) {
			f.remove([]byte(key), e, position{tp: e.at.tp, offset: l.end, stamp: e.at.stamp}, now)
		}
	}
}

// register adds n TPs and returns the number of the first. Those whose messages an entity may have
// been in are registered before any of them is read: else a deletion in one is not remembered, and
// an older message in the next brings the entity back.
func (f *fold) register(n int) (first uint32) {
	f.tps += uint32(n)
	return f.tps - uint32(n) + 1
}

// apply folds one message of a TP. body is a copy of its value; now counts seconds.
func (f *fold) apply(m *message, tp uint32, body []byte, now int64) outcome {
	if m.bare {
		return f.tombstone(m, tp, now)
	}
	if !f.current(m) {
		return outdated
	}
	e := f.entities[string(m.key)]
	var last position
	if e != nil {
		last = e.at
	} else {
		last, _ = f.deleted.get(string(m.key))
	}
	at, newer := follows(last, m, tp)
	if !newer {
		return older
	}
	if m.deleted {
		return f.remove(m.key, e, at, now)
	}
	return f.put(m, e, at, body)
}

// follows reports whether m is newer than the last message of its entity, and returns where the
// entity then is: within a TP the higher offset counts, across TPs the higher stamp. It is rule 6
// of decision 17, by which bridge itself reads its topics.
func follows(last position, m *message, tp uint32) (at position, newer bool) {
	at = position{tp: tp, offset: m.stored.Offset, stamp: m.stamp}
	back := m.stamp.before(last.stamp)
	switch {
	case last.tp == 0:
		return at, true
	case last.tp == tp && m.stored.Offset <= last.offset, last.tp != tp && back:
		return last, false
	}
	if back {
		// What a former process sent came late. It is what the bus says last, and bridge corrects
		// it; a message of another TP still has to be newer than both.
		at.stamp = last.stamp
	}
	return at, true
}

// current reports whether m has the newest KEY. Where it is the first one with another KEY, the
// entities of the one before are dropped.
func (f *fold) current(m *message) bool {
	if m.hash != f.hash {
		if !f.newest.before(m.stamp) {
			return false
		}
		f.hash = m.hash
		for key, e := range f.entities {
			delete(f.entities, key)
			f.changed(key, e, nil)
		}
		f.deleted = deletions{few: fewDeletions}
	}
	if f.newest.before(m.stamp) {
		f.newest = m.stamp
	}
	return true
}

// tombstone says nothing about an entity whose last message is in another TP.
func (f *fold) tombstone(m *message, tp uint32, now int64) outcome {
	e := f.entities[string(m.key)]
	if e == nil || e.at.tp != tp || m.stored.Offset <= e.at.offset {
		return older
	}
	return f.remove(m.key, e, position{tp: tp, offset: m.stored.Offset, stamp: e.at.stamp}, now)
}

func (f *fold) remove(key []byte, e *entity, at position, now int64) outcome {
	if f.tps > 1 || f.rebuilding {
		f.deleted.add(key, at, now, len(f.entities))
	}
	if e == nil {
		return repeated
	}
	name := string(key)
	delete(f.entities, name)
	f.changed(name, e, nil)
	return applied
}

func (f *fold) put(m *message, e *entity, at position, body []byte) outcome {
	if e != nil && e.id == m.id && e.row == m.row {
		same := *e
		same.at = at
		f.entities[string(m.key)] = &same
		return repeated
	}
	f.merged = f.merged || e != nil && e.at.tp == at.tp && e.kind.shard != m.kind.shard && m.kind.operation == Added
	next := &entity{m.said, body, at}
	name := string(m.key)
	f.deleted.remove(name)
	f.entities[name] = next
	f.changed(name, e, next)
	return applied
}

// replace has f follow a copy that was made before the bus was made again. It keeps what
// f does not know yet as stale, and returns how many that are.
func (f *fold) replace(before *fold) (stale int) {
	if f.newest == (stamp{}) {
		// It has met no message yet.
		f.hash = before.hash
	}
	for key, e := range before.entities {
		if next := f.entities[key]; next != nil {
			if next.id != e.id {
				f.changed(key, e, next)
			}
			continue
		}
		if _, gone := f.deleted.get(key); gone || f.hash != before.hash {
			f.changed(key, e, nil)
			continue
		}
		kept := *e
		kept.at = position{}
		f.entities[key] = &kept
		stale++
	}
	for key, e := range f.entities {
		if before.entities[key] == nil {
			f.changed(key, nil, e)
		}
	}
	return stale
}

// dropStale drops what replace has kept and no message has confirmed since.
func (f *fold) dropStale() (dropped int) {
	f.rebuilding = false
	for key, e := range f.entities {
		if e.at.tp == 0 {
			delete(f.entities, key)
			f.changed(key, e, nil)
			dropped++
		}
	}
	return dropped
}

// kindIn returns meta.type and meta.version of the document in a value, nil where it cannot be
// read. They are parts of the value where the document begins as bridge writes it.
func kindIn(value []byte, format Format) (typ, version []byte) {
	document := value
	if format == FormatCloudEvents {
		// A text cannot hold this: its quotes would be escaped.
		_, document, _ = bytes.Cut(value, []byte(`,"data":`))
	}
	if typ, version, ok := beginning(document); ok {
		return typ, version
	}
	var e struct {
		Meta meta
		Data struct{ Meta meta }
	}
	if json.Unmarshal(value, &e) != nil {
		return nil, nil
	}
	if format == FormatCloudEvents {
		e.Meta = e.Data.Meta
	}
	return []byte(e.Meta.Type), []byte(e.Meta.Version)
}

type meta struct{ Type, Version string }

func beginning(document []byte) (typ, version []byte, ok bool) {
	rest, ok := bytes.CutPrefix(document, []byte(`{"meta":{"id":"`))
	if ok {
		_, rest, ok = textTo(rest, `","type":"`)
	}
	if ok {
		typ, rest, ok = textTo(rest, `","version":"`)
	}
	if ok {
		version, _, ok = textTo(rest, `","time":`)
	}
	return typ, version, ok
}

// textTo returns a text without escapes that ends with this.
func textTo(b []byte, end string) (text, rest []byte, ok bool) {
	at := bytes.IndexByte(b, '"')
	if at < 0 || bytes.IndexByte(b[:at], '\\') >= 0 {
		return nil, nil, false
	}
	rest, ok = bytes.CutPrefix(b[at:], []byte(end))
	return b[:at], rest, ok
}
