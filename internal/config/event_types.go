package config

import (
	"fmt"
	"slices"
	"strings"

	"bridge/event"
)

// eventTypes checks EVENT and EVENT_NAMES and puts the names into s.
func (l *loader) eventTypes(begin string, s *Stream, names list) {
	variable := begin + "EVENT"
	switch stem := s.Event; {
	case stem != "":
		l.eventType(variable, "", stem)
	default:
		// The default is made of the words of the stream's name.
		words := strings.ReplaceAll(s.Name, "_", "")
		if words == "" || !isAlpha(rune(words[0])) || isEiffel(words) {
			l.add(variable, "is not set, and the stream's name makes no event type: set a stem that begins with a letter and not with Eiffel")
		}
	}
	if l.has(begin + "KIND") {
		return
	}
	for i, item := range names {
		l.eventName(begin+"EVENT_NAMES", item, i+1, s)
	}
	if deleted := s.EventNames[event.Deleted]; deleted != "" && (deleted == s.EventNames[event.Added] || deleted == s.EventNames[event.Modified]) {
		l.add(begin+"EVENT_NAMES", "gives deleted the name of another operation, which consumers could not tell apart: choose another name")
	}
}

// checkVersion checks EVENT_VERSION.
func checkVersion(l *loader, variable, version string) {
	if _, ok := event.ParseVersion(version); !ok {
		l.add(variable, "invalid version: use three numbers with dots, as in 1.0.0")
	}
}

// eventName parses one operation:name of EVENT_NAMES into s; number tells which item it is.
func (l *loader) eventName(variable, item string, number int, s *Stream) {
	operations := []event.Op{event.Added, event.Modified, event.Deleted}
	allowed := "added, modified and deleted"
	if s.Kind == event.Release {
		operations, allowed = []event.Op{event.Published}, "published"
	}
	operation, name, named := strings.Cut(item, ":")
	op := event.Op(strings.ToLower(strings.TrimSpace(operation)))
	name = strings.TrimSpace(name)
	_, twice := s.EventNames[op]
	switch {
	case !named || name == "":
		l.add(variable, "item %d has no name: write operation:name, as in added:OrderAddedMessage", number)
	case !slices.Contains(operations, op):
		l.add(variable, "item %d has no operation of a %s stream: use %s", number, s.Kind, allowed)
	case twice:
		l.add(variable, "item %d names an operation a second time: name each once", number)
	default:
		l.eventType(variable, fmt.Sprintf("item %d ", number), name)
		if s.EventNames == nil {
			s.EventNames = map[event.Op]string{}
		}
		s.EventNames[op] = name
	}
}

// eventType checks a name, or the stem of one. The Eiffel protocol keeps types that begin with its
// name for itself.
func (l *loader) eventType(variable, where, name string) {
	if isEiffel(name) {
		l.add(variable, "%sbegins with Eiffel, which the Eiffel protocol keeps for its own events: choose another name", where)
	} else if !isEventType(name) {
		l.add(variable, "%sis no event type: use letters, digits and _, a letter first", where)
	}
}

func isEventType(name string) bool { return isStreamName(name) && isAlpha(rune(name[0])) }

func isEiffel(name string) bool {
	return len(name) >= len("eiffel") && strings.EqualFold(name[:len("eiffel")], "eiffel")
}
