package kafka

import (
	"encoding/binary"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// shortestSession bounds how often connections are replaced when sessions are short.
const shortestSession = time.Second

// renewalOf returns after what time of a session to connect again. Brokers close a connection at
// the first request after its end.
func renewalOf(lifetime time.Duration) time.Duration { return max(lifetime*4/5, shortestSession) }

// loginWatch reads from the bytes of a login how long the session lasts (KIP-368), which kafka-go
// does not tell. A login has one request on the way at a time.
type loginWatch struct {
	request, answer []byte
	// over says that the login has ended, or is none that can be read.
	over bool
}

// longestLogin bounds the bytes of one request, and of one answer.
const longestLogin = 64 << 10

// wrote notes bytes of a request.
func (w *loginWatch) wrote(b []byte) {
	if w.over {
		return
	}
	if w.answer != nil {
		w.request, w.answer = nil, nil
	}
	w.request = append(w.request, b...)
	w.bound()
}

// read notes bytes of an answer and returns the lifetime of the session, 0 where they do not tell.
func (w *loginWatch) read(b []byte) time.Duration {
	if w.over || len(b) == 0 {
		return 0
	}
	if w.answer == nil && !w.isLogin() {
		w.end()
		return 0
	}
	w.answer = append(w.answer, b...)
	w.bound()
	return w.lifetime()
}

// isLogin reports whether the request is one of those before and in a login.
func (w *loginWatch) isLogin() bool {
	if len(w.request) < 8 {
		return false
	}
	switch w.api() {
	case protocol.ApiVersions, protocol.SaslHandshake, protocol.SaslAuthenticate:
		return true
	}
	return false
}

func (w *loginWatch) api() protocol.ApiKey {
	return protocol.ApiKey(binary.BigEndian.Uint16(w.request[4:]))
}

// lifetime returns the last member of an answer to SaslAuthenticate of version 1, once all of it is
// there.
func (w *loginWatch) lifetime() time.Duration {
	// Size, correlation id, error, lengths of message and bytes, lifetime.
	const shortest = 4 + 4 + 2 + 2 + 4 + 8
	n := len(w.answer)
	if n < shortest || w.api() != protocol.SaslAuthenticate || binary.BigEndian.Uint16(w.request[6:]) != 1 {
		return 0
	}
	if size := binary.BigEndian.Uint32(w.answer); uint64(size) != uint64(n-4) || binary.BigEndian.Uint16(w.answer[8:]) != 0 {
		return 0
	}
	ms := binary.BigEndian.Uint64(w.answer[n-8:])
	if ms > uint64(maxSession/time.Millisecond) {
		return maxSession
	}
	return time.Duration(ms) * time.Millisecond
}

// maxSession stands for all longer sessions.
const maxSession = 365 * 24 * time.Hour

func (w *loginWatch) bound() {
	if len(w.request) > longestLogin || len(w.answer) > longestLogin {
		w.end()
	}
}

func (w *loginWatch) end() { *w = loginWatch{over: true} }
