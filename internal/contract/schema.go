package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Schema is a JSON Schema of draft 2020-12, with the keywords that bridge uses.
type Schema struct {
	// Never says that no value fits: the schema false.
	Never                bool        `json:"-"`
	Dialect              string      `json:"$schema,omitempty"`
	ID                   string      `json:"$id,omitempty"`
	Title                string      `json:"title,omitempty"`
	Comment              string      `json:"$comment,omitempty"`
	Description          string      `json:"description,omitempty"`
	Type                 Type        `json:"type,omitempty"`
	Const                any         `json:"const,omitempty"`
	Enum                 []any       `json:"enum,omitempty"`
	Default              any         `json:"default,omitempty"`
	Format               string      `json:"format,omitempty"`
	ContentEncoding      string      `json:"contentEncoding,omitempty"`
	Pattern              string      `json:"pattern,omitempty"`
	Not                  *Schema     `json:"not,omitempty"`
	MinLength            int         `json:"minLength,omitempty"`
	Minimum              json.Number `json:"minimum,omitempty"`
	Maximum              json.Number `json:"maximum,omitempty"`
	Properties           Properties  `json:"properties,omitempty"`
	Required             []string    `json:"required,omitempty"`
	AdditionalProperties *bool       `json:"additionalProperties,omitempty"`
	Items                *Schema     `json:"items,omitempty"`
	MaxItems             int         `json:"maxItems,omitempty"`
	AnyOf                []*Schema   `json:"anyOf,omitempty"`
}

// MarshalJSON writes an object, or false.
func (s *Schema) MarshalJSON() ([]byte, error) {
	if s.Never {
		return []byte("false"), nil
	}
	type plain Schema
	return marshal((*plain)(s))
}

// Type is one type or several; none says nothing.
type Type []string

// MarshalJSON writes one type as a string, several as an array.
func (t Type) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Type) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*t = make(Type, 1)
		return json.Unmarshal(b, &(*t)[0])
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// Property is a member of an object.
type Property struct {
	Name   string
	Schema *Schema
}

// Properties are the members of an object, in the order in which they are written.
type Properties []Property

// Of returns the schema of a member, nil where there is none.
func (p Properties) Of(name string) *Schema {
	for _, one := range p {
		if one.Name == name {
			return one.Schema
		}
	}
	return nil
}

// MarshalJSON writes an object whose members are in the order of p.
func (p Properties) MarshalJSON() ([]byte, error) {
	return marshalObject(p, func(one Property) (string, any) { return one.Name, one.Schema })
}

// marshalObject writes an object whose members are in the order of a list.
func marshalObject[E any](list []E, member func(E) (name string, value any)) ([]byte, error) {
	b := []byte{'{'}
	for i, one := range list {
		if i > 0 {
			b = append(b, ',')
		}
		key, of := member(one)
		name, err := marshal(key)
		if err != nil {
			return nil, err
		}
		value, err := marshal(of)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

// Text returns schemas or a document as indented JSON.
func Text(v any) ([]byte, error) {
	compact, err := marshal(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", "  "); err != nil {
		return nil, err
	}
	return append(b.Bytes(), '\n'), nil
}

// marshal returns v as JSON, in which < and > stay as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
}

// UnmarshalJSON reads an object and keeps the order of its members.
func (p *Properties) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return errors.Join(errors.New("properties are no object"), err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		schema, err := Parse(value)
		if err != nil {
			return fmt.Errorf("%v: %w", name, err)
		}
		*p = append(*p, Property{name.(string), schema})
	}
	return nil
}

// Parse reads a schema; a keyword that Schema does not have is an error.
func Parse(b []byte) (*Schema, error) {
	if string(b) == "false" {
		return &Schema{Never: true}, nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	s := new(Schema)
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("read a schema: %w", err)
	}
	return s, nil
}
