package workload

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode"
)

// naming makes the names of one writer's entities.
type naming struct {
	rng *rand.Rand
	// loose is Options.Loose of the workload.
	loose bool
	names int
}

// fresh returns a name that no entity of the writer ever had. Most names have an upper-case and a
// lower-case form.
func (n *naming) fresh() string {
	n.names++
	return fmt.Sprintf([]string{"Item-%d", "Café+%d", "%d", "köln/%d 😀"}[n.names%4], n.names)
}

// compared returns what the server compares of a name.
func (n *naming) compared(name string) string {
	name = strings.TrimRight(name, " ")
	if n.loose {
		return strings.ToLower(name)
	}
	return name
}

// alike returns a name that differs in case or in spaces at its end.
func (n *naming) alike(name string) string {
	switch {
	case n.rng.IntN(3) == 0 && strings.HasSuffix(name, " "):
		return strings.TrimRight(name, " ")
	case n.rng.IntN(3) == 0:
		return name + " "
	case strings.ContainsFunc(name, unicode.IsUpper):
		return strings.ToLower(name)
	}
	return strings.ToUpper(name)
}
