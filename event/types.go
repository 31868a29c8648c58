package event

// ops are all operations in the order in which they are documented.
var ops = []Op{Added, Modified, Deleted, Published}

// suffixes turn a stem into the types of the operations.
var suffixes = map[Op]string{
	Added:     "AddedEvent",
	Modified:  "ModifiedEvent",
	Deleted:   "DeletedEvent",
	Published: "PublishedEvent",
}

// opsOf returns the operations of a kind of stream.
func opsOf(kind Kind) []Op {
	if kind == Release {
		return []Op{Published}
	}
	return []Op{Added, Modified, Deleted}
}

// eventType is one operation with what the encoder writes for it.
type eventType struct {
	op   Op
	name string
	// head is the JSON between meta.id and the value of meta.time.
	head []byte
	// cloud is the JSON between id and the value of time of a CloudEvent.
	cloud []byte
}

// typeOf returns the event type of an operation under o, which is valid.
func (o Options) typeOf(op Op) eventType {
	name, ok := o.Names[op]
	if !ok {
		name = o.Stem + suffixes[op]
	}
	head := append([]byte(nil), `","type":`...)
	head, _ = appendString(head, []byte(name))
	head = append(head, `,"version":"`+o.Version+`","time":`...)
	cloud := append(AppendURI([]byte(`","source":"`), o.Domain, o.Stream), `","type":`...)
	cloud, _ = appendString(cloud, []byte(name))
	cloud = append(cloud, `,"time":"`...)
	return eventType{op: op, name: name, head: head, cloud: cloud}
}
