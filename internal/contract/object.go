package contract

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// object is a JSON object.
type object = map[string]any

// get returns the value at a path of members, nil if there is none.
func get(o object, path ...string) any {
	for _, name := range path[:len(path)-1] {
		o, _ = o[name].(object)
	}
	return o[path[len(path)-1]]
}

// set changes the value at a path of members, which it makes where they are missing.
func set(o object, value any, path ...string) {
	for _, name := range path[:len(path)-1] {
		inner, _ := o[name].(object)
		if inner == nil {
			inner = object{}
			o[name] = inner
		}
		o = inner
	}
	o[path[len(path)-1]] = value
}

// without returns the object without some of its members.
func without(o object, names ...string) object {
	o = maps.Clone(o)
	maps.DeleteFunc(o, func(name string, _ any) bool { return slices.Contains(names, name) })
	return o
}

// text returns the object as indented JSON, in which < and > stay as they are.
func text(o object) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(o)
	return b.Bytes(), err
}
