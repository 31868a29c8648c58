package bus

import (
	"fmt"
	"strings"
)

// maxTopic is the longest name of a Kafka topic, in bytes.
const maxTopic = 249

// CheckTopic returns nil if name is a legal Kafka topic: 1 to 249 bytes of [A-Za-z0-9._-], neither
// "." nor ".." (org.apache.kafka.common.internals.Topic).
func CheckTopic(name string) error {
	switch i := BadTopicByte(name); {
	case name == "":
		return fmt.Errorf("the Kafka topic is empty, give it a name")
	case name == "." || name == "..":
		return fmt.Errorf("the Kafka topic may not be %q: give it another name", name)
	case len(name) > maxTopic:
		return fmt.Errorf("the Kafka topic %.40q… has %d bytes, at most %d are allowed", name, len(name), maxTopic)
	case i >= 0:
		return fmt.Errorf("the Kafka topic %q has %q, a topic has only letters, digits and . _ -", name, name[i:i+1])
	}
	return nil
}

// BadTopicByte returns the index of the first byte that no topic has, or -1.
func BadTopicByte(s string) int {
	for i := range len(s) {
		if !IsTokenByte(s[i]) && s[i] != '.' {
			return i
		}
	}
	return -1
}

// Covers reports whether pattern, a NATS subject that may have the wildcards * and >, covers every
// subject that other, one subject or such a pattern, covers.
func Covers(pattern, other string) bool {
	for {
		p, restP, moreP := strings.Cut(pattern, ".")
		if p == ">" {
			return true
		}
		o, restO, moreO := strings.Cut(other, ".")
		if p != o && (p != "*" || o == ">") || moreP != moreO {
			return false
		}
		if !moreP {
			return true
		}
		pattern, other = restP, restO
	}
}

// Meet reports whether some subject is covered by both patterns.
func Meet(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for n := range min(len(as), len(bs)) {
		if as[n] == ">" || bs[n] == ">" {
			return true
		}
		if as[n] != bs[n] && as[n] != "*" && bs[n] != "*" {
			return false
		}
	}
	return len(as) == len(bs)
}

// IsTokenByte reports whether c needs no escape in a token of a NATS subject.
func IsTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}
