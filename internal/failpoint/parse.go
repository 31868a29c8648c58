package failpoint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// verb is what happens at a point.
type verb string

const (
	kill  verb = "kill"
	fail  verb = "error"
	sleep verb = "sleep"
	hang  verb = "hang"
	shift verb = "shift"
)

// action is the right side of an entry.
type action struct {
	verb verb
	// err is what fail returns, by how long sleep takes or by how much shift is wrong.
	err error
	by  time.Duration
	// probability is that of one pass; left is how often it still acts, negative for ever.
	probability float64
	left        int
}

// parse reads a list. The error names the entry that is at fault.
func parse(list string) (map[Point]*action, error) {
	actions := make(map[Point]*action)
	for entry := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ';' || r == '\n' }) {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		point, a, err := parseEntry(entry)
		if err == nil && actions[point] != nil {
			err = errors.New("the point is listed twice")
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", entry, err)
		}
		actions[point] = a
	}
	return actions, nil
}

func parseEntry(entry string) (Point, *action, error) {
	name, text, ok := strings.Cut(entry, "=")
	if !ok {
		return "", nil, errors.New("want point=action")
	}
	point := Point(strings.TrimSpace(name))
	if !point.known() {
		return "", nil, fmt.Errorf("there is no point %q", point)
	}
	a, err := parseAction(strings.TrimSpace(text))
	switch {
	case err != nil:
		return "", nil, err
	case a.verb == fail && !point.fails():
		return "", nil, fmt.Errorf("%s cannot fail", point)
	case a.verb == shift && !point.shifts():
		return "", nil, fmt.Errorf("%s is no clock", point)
	}
	return point, a, nil
}

// parseAction reads an action with its probability and count, and refuses whatever it does not understand.
func parseAction(text string) (*action, error) {
	a := &action{probability: 1, left: -1}
	name, argument, suffix := text, "", ""
	if i := strings.IndexAny(text, "(@*"); i >= 0 {
		name, suffix = text[:i], text[i:]
	}
	given := strings.HasPrefix(suffix, "(")
	if given {
		var closed bool
		if argument, suffix, closed = strings.Cut(suffix[1:], ")"); !closed {
			return nil, errors.New("a parenthesis is not closed")
		}
	}
	a.verb = verb(name)
	if err := a.take(argument, given); err != nil {
		return nil, err
	}
	return a, a.takeSuffix(suffix)
}

// take reads the argument of an action.
func (a *action) take(argument string, given bool) (err error) {
	switch a.verb {
	case kill, hang:
		if given {
			return fmt.Errorf("%s takes no argument", a.verb)
		}
	case fail:
		if argument == "" {
			return errors.New("want error(text)")
		}
		a.err = errors.New(argument)
	case sleep, shift:
		a.by, err = time.ParseDuration(argument)
		if err != nil || a.verb == sleep && a.by <= 0 {
			return fmt.Errorf("want a time such as %s(2s)", a.verb)
		}
	default:
		return fmt.Errorf("there is no action %q: want kill, error, sleep, hang or shift", a.verb)
	}
	return nil
}

// takeSuffix reads the probability and the count behind an action.
func (a *action) takeSuffix(suffix string) (err error) {
	chance, count, counted := strings.Cut(suffix, "*")
	if counted {
		if a.left, err = strconv.Atoi(count); err != nil || a.left < 1 {
			return fmt.Errorf("want a count such as *3, not %q", "*"+count)
		}
	}
	if chance == "" {
		return nil
	}
	value, ok := strings.CutPrefix(chance, "@")
	if a.probability, err = strconv.ParseFloat(value, 64); !ok || err != nil || !(a.probability > 0 && a.probability <= 1) {
		return fmt.Errorf("want a probability above 0 and up to 1 such as @0.02, not %q", chance)
	}
	return nil
}
