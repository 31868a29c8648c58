package contract

import (
	"bytes"
	"encoding/json"
	"slices"
)

// object is a JSON object whose members are written in their order.
type object []member

type member struct {
	name  string
	value any
}

// get returns the value at a path of members, nil if there is none.
func (o object) get(path ...string) any {
	at := slices.IndexFunc(o, func(m member) bool { return m.name == path[0] })
	if at < 0 {
		return nil
	}
	if len(path) == 1 {
		return o[at].value
	}
	inner, _ := o[at].value.(object)
	return inner.get(path[1:]...)
}

// set changes the value at a path of members, which it makes where they are missing.
func (o *object) set(value any, path ...string) {
	at := slices.IndexFunc(*o, func(m member) bool { return m.name == path[0] })
	if at < 0 {
		at = len(*o)
		*o = append(*o, member{name: path[0]})
	}
	if len(path) > 1 {
		inner, _ := (*o)[at].value.(object)
		inner.set(value, path[1:]...)
		value = inner
	}
	(*o)[at].value = value
}

// without returns the object without some of its members.
func (o object) without(names ...string) object {
	return slices.DeleteFunc(slices.Clone(o), func(m member) bool { return slices.Contains(names, m.name) })
}

// MarshalJSON writes the object.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		value, err := marshal(m.value)
		if err != nil {
			return nil, err
		}
		name, _ := json.Marshal(m.name) // a text has no error
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

// marshal returns v as JSON, in which < and > stay as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
}

// text returns the object as indented JSON.
func (o object) text() ([]byte, error) {
	compact, err := marshal(o)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = json.Indent(&b, compact, "", "  ")
	return append(b.Bytes(), '\n'), err
}

// parse reads a value of JSON whose objects become object.
func parse(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil || token != json.Delim('{') && token != json.Delim('[') {
		return token, err
	}
	o, list := object{}, []any{}
	for d.More() {
		name := ""
		if token == json.Delim('{') {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name = key.(string)
		}
		value, err := parse(d)
		if err != nil {
			return nil, err
		}
		o, list = append(o, member{name, value}), append(list, value)
	}
	if _, err := d.Token(); err != nil || token == json.Delim('{') {
		return o, err
	}
	return list, nil
}
