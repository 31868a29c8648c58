package testenv

import (
	"fmt"
	"strings"
	"time"
)

// toxic is a toxic of Toxiproxy with its one attribute, for both directions.
type toxic struct {
	kind, attribute string
	value           int64
}

var directions = []string{"upstream", "downstream"}

// setToxic puts a toxic in place of the one of its kind; the value 0 means none. The others stay.
func (p *Proxy) setToxic(set toxic) {
	p.changes.Lock()
	defer p.changes.Unlock()
	all := p.active
	p.removeToxics()
	for _, t := range all {
		if t.kind != set.kind {
			p.addToxic(t)
		}
	}
	if set.value > 0 {
		p.addToxic(set)
	}
}

func (p *Proxy) addToxic(t toxic) {
	for _, direction := range directions {
		attributes := fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"attributes":{%q:%d}}`,
			t.kind+direction, t.kind, direction, t.attribute, t.value)
		p.untilDone(func() {
			if _, err := p.toxics.AddToxicJson(strings.NewReader(attributes)); err != nil {
				panic(err)
			}
		})
	}
	p.active = append(p.active, t)
}

// removeToxics removes them from the last to the first: in a connection that ends, Toxiproxy does not find those behind one
// that it has removed, and would go on to delay what nobody waits for.
func (p *Proxy) removeToxics() {
	for i := len(p.active) - 1; i >= 0; i-- {
		for _, direction := range directions {
			p.untilDone(func() {
				if err := p.toxics.RemoveToxic(p.ctx, p.active[i].kind+direction); err != nil {
					panic(err)
				}
			})
		}
	}
	p.active = nil
}

// untilDone calls change, which waits for connections whose end takes nothing, and resets connections after three seconds.
func (p *Proxy) untilDone(change func()) {
	impatient := time.AfterFunc(3*time.Second, p.Drop)
	defer impatient.Stop()
	change()
}
