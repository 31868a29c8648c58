package way

import (
	"fmt"
	"slices"
	"strings"
)

// handOver are the functions behind which another goroutine has the row, or its acknowledgement.
var handOver = []string{"shard.pipe.send", "kafka.worker.enqueue", "kafka.call.finish"}

// first is the function with which the way of a row begins.
const first = "shard.owner.poll"

type call struct {
	goroutine, name string
	// caller is nil for the first function of a goroutine, and for the first of the way.
	caller *call
	// before says of the receiver and the parameters whether they held the row.
	before string
	// gives says that the row is given on, here or in a function that is called.
	gives bool
	// depth is how deep it stands in the list, 0 where it does not.
	depth int
}

// pass notes that a row passes a function, and so those that have called it.
func (c *call) pass() {
	for ; c != nil; c = c.caller {
		c.gives = true
	}
}

// calls returns the calls in a trace, in the order in which they begin.
func calls(trace string) (all []*call, err error) {
	running := make(map[string][]*call)
	for line := range strings.Lines(trace) {
		word := strings.Fields(line)
		if len(word) < 4 {
			return nil, fmt.Errorf("a trace has the line %q", line)
		}
		goroutine, name := word[0], word[2]
		stack := running[goroutine]
		if word[1] == ">" {
			c := &call{goroutine: goroutine, name: name, before: word[3]}
			if len(stack) > 0 && name != first {
				c.caller = stack[len(stack)-1]
			}
			all, running[goroutine] = append(all, c), append(stack, c)
			continue
		}
		// Those above it have ended in a panic.
		at := len(stack) - 1
		for at >= 0 && stack[at].name != name {
			at--
		}
		if at < 0 {
			return nil, fmt.Errorf("a function that was not entered is left: %q", line)
		}
		c := stack[at]
		running[goroutine] = stack[:at]
		if strings.Contains(word[4], "+") || newly(c.before, word[3]) {
			c.pass()
		}
	}
	return all, nil
}

// newly reports whether a value holds the row that did not before.
func newly(before, behind string) bool {
	for i := range before {
		if before[i] == '-' && behind[i] == '+' {
			return true
		}
	}
	return false
}

// way returns the functions that a row passes by a trace, each at its first call, indented below
// the one that calls it, and how often it, or the acknowledgement, goes to another goroutine.
func way(trace string) (list []string, changes int, err error) {
	end := 0
	all, err := calls(trace)
	if err != nil {
		return nil, 0, err
	}
	at := slices.IndexFunc(all, func(c *call) bool { return c.name == first && c.gives })
	if at < 0 {
		return nil, 0, fmt.Errorf("no call of %s has given the row on", first)
	}
	all = all[at:]
	for _, name := range handOver {
		at := slices.IndexFunc(all, func(c *call) bool { return c.name == name })
		if at < 0 {
			return nil, 0, fmt.Errorf("%s was not called", name)
		}
		all[at].pass()
		end = max(end, at)
	}
	seen, goroutines := make(map[string]bool), make(map[string]bool)
	for _, c := range all[:end+1] {
		if !c.gives || seen[c.name] {
			continue
		}
		goroutines[c.goroutine] = true
		seen[c.name] = true
		up := c.caller
		for up != nil && up.depth == 0 {
			up = up.caller
		}
		if c.depth = 1; up != nil {
			c.depth += up.depth
		}
		list = append(list, strings.Repeat("  ", c.depth-1)+c.name)
	}
	// The acknowledgement goes back to where the message came from.
	return list, len(goroutines), nil
}
