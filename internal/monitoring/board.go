package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// The form of a board of Grafana, as far as it is used.
type (
	object = map[string]any
	array  = []any
)

const (
	boardWidth  = 24
	panelHeight = 8
)

// Board returns the board of Grafana for the metrics of a table.
func Board(metrics []Metric) ([]byte, error) {
	meaning := make(map[string]string)
	for _, m := range metrics {
		meaning[m.Name] = m.Meaning
	}
	var panels array
	id, y := 0, 0
	add := func(p object, x, width, height int) {
		id++
		p["id"], p["gridPos"] = id, object{"x": x, "y": y, "w": width, "h": height}
		panels = append(panels, p)
	}
	for i := range sections {
		s := &sections[i]
		add(object{"type": "row", "title": s.question, "collapsed": false, "panels": array{}}, 0, boardWidth, 1)
		y++
		x := 0
		for j := range s.panels {
			p := &s.panels[j]
			if x+p.width > boardWidth {
				x, y = 0, y+panelHeight
			}
			add(p.object(meaning), x, p.width, panelHeight)
			x += p.width
		}
		y += panelHeight
	}
	board := object{
		"uid": "bridge", "title": "bridge", "tags": array{"bridge"}, "schemaVersion": 39, "editable": true, "graphTooltip": 1, "refresh": "30s",
		"description": "Written by go test ./internal/monitoring -update.",
		"time":        object{"from": "now-6h", "to": "now"}, "timezone": "browser",
		"templating": object{"list": array{
			object{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
			variable("job", "Job", "label_values(bridge_build_info, job)"),
			variable("instance", "Instance", `label_values(bridge_build_info{job=~"$job"}, instance)`),
			variable("stream", "Stream", `label_values(bridge_records_total{job=~"$job", instance=~"$instance"}, stream)`),
		}},
		"annotations": object{"list": array{}},
		"panels":      panels,
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(board); err != nil {
		return nil, fmt.Errorf("encode the board: %w", err)
	}
	return b.Bytes(), nil
}

var datasource = object{"type": "prometheus", "uid": "${datasource}"}

// variable is a choice of any number of values of a label.
func variable(name, label, query string) object {
	return object{
		"name": name, "label": label, "type": "query", "datasource": datasource, "query": object{"query": query, "refId": name}, "definition": query,
		"refresh": 2, "sort": 1, "includeAll": true, "multi": true, "allValue": ".*", "current": object{"text": "All", "value": "$__all"},
	}
}

func (p *panel) object(meaning map[string]string) object {
	var targets array
	for i, q := range p.queries {
		target := object{"refId": string(rune('A' + i)), "datasource": datasource, "expr": chosen(q.expr), "legendFormat": q.legend}
		if p.kind == list {
			target["instant"], target["format"] = true, "table"
		}
		targets = append(targets, target)
	}
	defaults := object{"unit": p.unit, "thresholds": object{"mode": "absolute", "steps": p.colours()}, "color": object{"mode": "palette-classic"}}
	if p.kind != chart {
		defaults["color"] = object{"mode": "thresholds"}
	}
	if len(p.names) > 0 {
		named := object{}
		for i, name := range p.names {
			named[fmt.Sprint(i)] = object{"text": name, "index": i}
		}
		defaults["mappings"] = array{object{"type": "value", "options": named}}
	}
	o := object{
		"type": p.kind, "title": p.title, "description": p.description(meaning), "datasource": datasource, "targets": targets,
		"fieldConfig": object{"defaults": defaults, "overrides": array{}},
	}
	switch p.kind {
	case chart:
		defaults["custom"] = object{"thresholdsStyle": object{"mode": p.thresholdLines()}, "fillOpacity": 10}
		o["options"] = object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}}
	case list:
		hidden := object{"Time": true, "__name__": true}
		o["transformations"] = array{object{"id": "organize", "options": object{"excludeByName": hidden}}}
	}
	return o
}

func (p *panel) thresholdLines() string {
	if len(p.steps) == 0 {
		return "off"
	}
	return "dashed"
}

func (p *panel) colours() array {
	all := array{object{"color": "green", "value": nil}}
	for _, s := range p.steps {
		all = append(all, object{"color": s.colour, "value": s.from})
	}
	return all
}

// description says what to see in a panel, and what its metrics mean.
func (p *panel) description(meaning map[string]string) string {
	var lines []string
	if p.about != "" {
		lines = append(lines, p.about)
	}
	seen := make(map[string]bool)
	for _, q := range p.queries {
		for _, name := range asked(q.expr) {
			if m := meaning[name]; m != "" && !seen[name] {
				seen[name] = true
				lines = append(lines, fmt.Sprintf("`%s`: %s.", name, strings.TrimSuffix(m, ".")))
			}
		}
	}
	return strings.Join(lines, "\n\n")
}

var matchers = regexp.MustCompile(`\{[SI]`)

// chosen returns an expression for what is chosen on the board.
func chosen(expr string) string {
	return matchers.ReplaceAllStringFunc(expr, func(found string) string {
		if found == "{I" {
			return `{job=~"$job", instance=~"$instance"`
		}
		return `{job=~"$job", instance=~"$instance", stream=~"$stream"`
	})
}
