package sink

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"unicode/utf8"
)

// DeadLetterType and DeadLetterVersion are the Type and Version of dead letters. A dead letter is no Eiffel event: it has
// no envelope, and it is not about an entity but about a message.
const (
	DeadLetterType    = "BridgeDeadLetterEvent"
	DeadLetterVersion = "1.1.0"
)

// MinDeadLetter is the smallest size that a dead letter can be held to, in bytes. A smaller limit counts as this one.
const MinDeadLetter = 1024

// deadLetterSpace is the name space of the ids of dead letters, a UUID made once at random.
var deadLetterSpace = [16]byte{0x5b, 0x0f, 0x9c, 0x1e, 0x7a, 0x52, 0x4d, 0x0b, 0x9e, 0x36, 0xc4, 0x61, 0x28, 0xd7, 0x8f, 0xa3}

// Refused is a message that the bus refuses for good.
type Refused struct {
	Message
	// Reason is the bus's answer.
	Reason string
	// Entity is the entity that the event is about, in the encoding of event.Event.Entity; empty where there is none.
	Entity []byte
}

// DeadLetter makes the message that goes to the dead-letter destination in place of r. Its Value is a JSON document with the members of
// [Letter]: size is that of r.Value in bytes and digest its [Digest], excerpt as much of r.Value as fits, cut at a character's boundary;
// truncated tells whether it was. Bytes that are not UTF-8 appear as U+FFFD.
//
// Key and Value together have at most limit bytes, whatever r holds: where they do not fit, the key is cut, and so is every
// text of the document; an entity is left out. Headers come on top; most need less than 1 KiB. The id is a UUID of version 5 over the destination
// and the document, which holds the event's id: a repeat has the same id and bytes (invariant 4). Stream, Shard, RowID, Origin and Time
// are those of r.
func DeadLetter(r Refused, destination string, limit int) Message {
	limit = max(limit, MinDeadLetter)
	key := r.Key[:min(len(r.Key), limit/8)]
	body := appendDeadLetter(make([]byte, 0, min(limit, 1024+len(r.Value)+len(r.Value)/4)), &r, limit-len(key))
	return Message{
		Destination: destination,
		Key:         append([]byte(nil), key...),
		Value:       body,
		ID:          deadLetterID(destination, body), // Invariant 4: same document, same id.
		Type:        DeadLetterType,
		Version:     DeadLetterVersion,
		Stream:      r.Stream,
		Shard:       r.Shard,
		RowID:       r.RowID,
		Origin:      r.Origin,
		Time:        r.Time,
	}
}

// appendDeadLetter appends the document, at most limit bytes of it, to dst, which must be empty.
func appendDeadLetter(dst []byte, r *Refused, limit int) []byte {
	// Eight texts of a sixteenth leave enough of the least limit for names, numbers and the beginning of the excerpt.
	most := limit / 16
	told := tell(r.Value)
	text := func(name, value string) {
		dst = append(dst, name...)
		dst, _ = appendText(dst, value, most)
	}
	text(`{"stream":`, r.Stream)
	text(`,"shard":`, r.Shard)
	dst = append(dst, `,"rowId":`...)
	dst = strconv.AppendUint(dst, r.RowID, 10)
	text(`,"key":`, string(r.Key))
	if n := base64.StdEncoding.EncodedLen(len(r.Entity)); n > 0 && n+2 <= most {
		text(`,"entity":`, base64.StdEncoding.EncodeToString(r.Entity))
	}
	text(`,"eventId":`, r.ID)
	text(`,"eventType":`, r.Type)
	dst = append(dst, `,"eventTime":`...)
	dst = strconv.AppendInt(dst, told.Meta.Time, 10)
	text(`,"previous":`, told.previous())
	text(`,"destination":`, r.Destination)
	text(`,"reason":`, r.Reason)
	dst = append(dst, `,"size":`...)
	dst = strconv.AppendInt(dst, int64(len(r.Value)), 10)
	dst = append(dst, `,"digest":"`...)
	dst = append(dst, Digest(r.Value)...)
	dst = append(dst, `","excerpt":`...)
	const tail = `,"truncated":false}`
	dst, whole := appendText(dst, r.Value, limit-len(dst)-len(tail))
	dst = append(dst, `,"truncated":`...)
	dst = strconv.AppendBool(dst, !whole)
	return append(dst, '}')
}

// appendText appends as much of text as fits into most bytes, quotes and escapes included, as a JSON string, and reports
// whether that was all of it.
func appendText[T string | []byte](dst []byte, text T, most int) (_ []byte, whole bool) {
	const hexDigits = "0123456789abcdef"
	end := len(dst) + max(most, 2) - 1
	dst = append(dst, '"')
	var escape [6]byte
	for i := 0; i < len(text); {
		size, char := 1, escape[:0]
		switch c := text[i]; {
		case c == '"' || c == '\\':
			char = append(char, '\\', c)
		case c < ' ':
			char = append(char, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c < utf8.RuneSelf:
			char = append(char, c)
		default:
			var r rune
			r, size = utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
			char = utf8.AppendRune(char, r)
		}
		if len(dst)+len(char) > end {
			return append(dst, '"'), false
		}
		dst = append(dst, char...)
		i += size
	}
	return append(dst, '"'), true
}

// deadLetterID returns a UUID of version 5 (RFC 9562 section 5.5).
func deadLetterID(destination string, body []byte) string {
	h := sha1.New()
	h.Write(deadLetterSpace[:])
	h.Write([]byte(destination))
	h.Write([]byte{0})
	h.Write(body)
	sum := h.Sum(nil)
	sum[6] = sum[6]&0x0f | 0x50
	sum[8] = sum[8]&0x3f | 0x80
	var id [36]byte
	hex.Encode(id[0:8], sum[0:4])
	hex.Encode(id[9:13], sum[4:6])
	hex.Encode(id[14:18], sum[6:8])
	hex.Encode(id[19:23], sum[8:10])
	hex.Encode(id[24:36], sum[10:16])
	id[8], id[13], id[18], id[23] = '-', '-', '-', '-'
	return string(id[:])
}
