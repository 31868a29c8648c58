package apidoc

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// object is a JSON object.
type object = map[string]any

// schemas makes JSON Schemas of types, each struct once.
type schemas struct {
	comments comments
	// made has those of structs by their names; optional the members that a request may leave out.
	made     object
	optional map[string][]string
	// narrower has what members are checked for beside their types.
	narrower map[string]object
}

// of returns the schema of a type. The error names what has none.
func (s *schemas) of(t reflect.Type) (object, error) {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}, nil
	case t == reflect.TypeFor[json.RawMessage]():
		return object{}, nil
	}
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}, nil
	case reflect.Bool:
		return object{"type": "boolean"}, nil
	case reflect.Int:
		return object{"type": "integer"}, nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "minimum": 0}, nil
	case reflect.Float64:
		return object{"type": "number"}, nil
	case reflect.Pointer:
		one, err := s.of(t.Elem())
		return nullable(one), err
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}, nil
		}
		items, err := s.of(t.Elem())
		return object{"type": []string{"array", "null"}, "items": items}, err
	case reflect.Map:
		values, err := s.of(t.Elem())
		return object{"type": []string{"object", "null"}, "additionalProperties": values}, err
	case reflect.Struct:
		return s.ref(t)
	}
	return nil, fmt.Errorf("no schema for %s", t)
}

// nullable returns a schema that null fits, too.
func nullable(one object) object {
	if name, ok := one["type"].(string); ok {
		one["type"] = []string{name, "null"}
		return one
	}
	return object{"anyOf": []object{one, {"type": "null"}}}
}

// ref returns a reference to the schema of a struct.
func (s *schemas) ref(t reflect.Type) (object, error) {
	ref := object{"$ref": "#/components/schemas/" + t.Name()}
	if s.made[t.Name()] != nil {
		return ref, nil
	}
	made := object{"type": "object", "additionalProperties": false}
	s.made[t.Name()] = made
	properties, required := object{}, []string{}
	err := s.members(t, properties, &required)
	made["properties"], made["required"] = properties, required
	if doc := s.comments.of(t, ""); doc != "" {
		made["description"] = doc
	}
	return ref, err
}

// members adds the members of a struct, and those of structs that are embedded in it.
func (s *schemas) members(t reflect.Type, properties object, required *[]string) error {
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case field.Anonymous && name == "":
			if err := s.members(field.Type, properties, required); err != nil {
				return err
			}
			continue
		}
		one, err := s.of(field.Type)
		if err != nil {
			return fmt.Errorf("%s of %s: %w", field.Name, t.Name(), err)
		}
		if doc := s.comments.of(t, field.Name); doc != "" {
			one["description"] = doc
		}
		maps.Copy(one, s.narrower[t.Name()+"."+name])
		properties[name] = one
		if !strings.HasPrefix(options, "omit") && !s.mayLack(t, name) {
			*required = append(*required, name)
		}
	}
	return nil
}

func (s *schemas) mayLack(t reflect.Type, name string) bool {
	return slices.Contains(s.optional[t.Name()], name)
}
