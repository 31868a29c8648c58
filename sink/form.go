package sink

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// firstEvery is how many messages of a batch follow one that says what is the same in all of them:
// who reads the newest messages of a TP finds it among a few hundred, however large batches are.
const firstEvery = 512

// IsFirst reports whether m says what is the same in all messages of its batch in its TP.
func (m *Message) IsFirst() bool { return m.First || m.State.Index%firstEvery == 0 }

// mostFirst is how many destinations of a batch get a first message: beyond, each key has its own.
const mostFirst = 8

// NoteFirst notes which messages of batch are the first ones to their destinations, for a bus where
// the destination is what consumers select by.
func NoteFirst(batch []Message) {
	var met [mostFirst]string
	n := 0
	for i := range batch {
		m, known := &batch[i], false
		for _, destination := range met[:n] {
			if known = destination == m.Destination; known {
				break
			}
		}
		if !known {
			if n == mostFirst {
				return
			}
			met[n], m.First = m.Destination, true
			n++
		}
	}
}

// AppendForm appends the value of HeaderForm: Form and, unless that is 0, Born, 4 bytes big endian
// each, in base64url without padding.
func (m *Message) AppendForm(dst []byte) []byte {
	if m.Form == 0 {
		return dst
	}
	var b [8]byte
	binary.BigEndian.PutUint32(b[:], m.Form)
	binary.BigEndian.PutUint32(b[4:], m.Born)
	if m.Born == 0 {
		return digestText.AppendEncode(dst, b[:4])
	}
	return digestText.AppendEncode(dst, b[:])
}

// ParseForm reads what AppendForm wrote, zero where that is not there or of another version.
func (f *Fields) ParseForm() (form, born uint32) {
	var b [8]byte
	if len(f.Form) != digestText.EncodedLen(4) && len(f.Form) != digestText.EncodedLen(8) {
		return 0, 0
	}
	if _, err := digestText.Decode(b[:], f.Form); err != nil {
		return 0, 0
	}
	return binary.BigEndian.Uint32(b[:]), binary.BigEndian.Uint32(b[4:])
}

// AppendServer appends the value of HeaderServer: when the server was started, in Unix seconds and
// 0 where that is unknown, a blank, and the server as text. Control characters become blanks.
func AppendServer(dst []byte, started int64, server string) []byte {
	dst = append(strconv.AppendInt(dst, started, 10), ' ')
	for i := range len(server) {
		c := server[i]
		if c < ' ' || c == 0x7f {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}

// ParseServer reads what AppendServer wrote; server is empty where that is not there.
func (f *Fields) ParseServer() (started int64, server string) {
	number, server, _ := strings.Cut(string(f.Server), " ")
	started, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, ""
	}
	return started, server
}
