package sink

import (
	"fmt"
	"strings"
)

// maxTopic is the longest name of a Kafka topic, in bytes.
const maxTopic = 249

// ParseTopic reads a template of Kafka topics. Neither {type} nor {key} is allowed: topics are not
// made on the fly, and a message's key already tells entities apart. Whether values make a legal
// topic shows only with the values: see CheckTopic.
func ParseTopic(text string) (*Template, error) {
	t, err := ParseTemplate(text, "stream", "table", "family", "tag", "domain")
	if err != nil {
		return nil, err
	}
	for _, p := range t.parts {
		if i := badTopicByte(p.literal); i >= 0 {
			return nil, fmt.Errorf("destination %q has %q, a Kafka topic has only letters, digits and . _ -", text, p.literal[i:i+1])
		}
	}
	return t, nil
}

// CheckTopic returns nil if name is a legal Kafka topic: 1 to 249 bytes of [A-Za-z0-9._-], neither
// "." nor ".." (org.apache.kafka.common.internals.Topic).
func CheckTopic(name string) error {
	switch i := badTopicByte(name); {
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

// badTopicByte returns the index of the first byte that no topic has, or -1.
func badTopicByte(s string) int {
	for i := range len(s) {
		if !isTokenByte(s[i]) && s[i] != '.' {
			return i
		}
	}
	return -1
}

// ParseSubject reads a template of NATS subjects. All placeholders are allowed; each makes a part
// of one token, escaped by EscapeToken, so that every event gets a legal subject. Only {domain} may
// make several: its dots separate tokens.
func ParseSubject(text string) (*Template, error) {
	t, err := ParseTemplate(text)
	if err != nil {
		return nil, err
	}
	t.dotted = true
	filled := t.Append(nil, Vars{}, EscapeToken)
	if err := CheckSubject(string(filled)); err != nil {
		return nil, fmt.Errorf("destination %q: %w", text, err)
	}
	return t, nil
}

// CheckSubject returns nil if name is a NATS subject that can be published to: tokens joined by
// dots, none empty, no wildcard, no white space, nothing that belongs to the server ("$").
func CheckSubject(name string) error {
	if name == "" {
		return fmt.Errorf("the NATS subject is empty, give it a name")
	}
	if strings.HasPrefix(name, "$") {
		return fmt.Errorf("the NATS subject %q begins with '$', which the server keeps for itself", name)
	}
	for token := range strings.SplitSeq(name, ".") {
		if token == "" {
			return fmt.Errorf("the NATS subject %q has an empty token: a dot at its beginning or end, or two in a row", name)
		}
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c == '*' || c == '>':
			return fmt.Errorf("the NATS subject %q has the wildcard %q, events need one subject", name, string(c))
		case c <= ' ' || c == 0x7f:
			return fmt.Errorf("the NATS subject %q has white space or a control character", name)
		}
	}
	return nil
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
