package apidoc

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"

	"bridge/internal/config"
	"bridge/internal/httpapi"
	"bridge/internal/option"
)

// Document returns the OpenAPI document, made of the sources of the module around the working
// directory.
func Document() ([]byte, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	found, err := readComments(root, "bridge/internal/httpapi", "bridge/internal/shard", "bridge/internal/apidoc")
	if err != nil {
		return nil, err
	}
	s := &schemas{comments: found, made: object{}, optional: map[string][]string{
		// A request may leave these out.
		"ResendRequest": {"dryRun"}, "DeadLetter": {"row", "type", "previous", "digest"},
	}, narrower: map[string]object{
		"ResendRequest.shard": {"minLength": 1}, "ResendRequest.letters": {"type": "array", "minItems": 1, "maxItems": httpapi.MaxDeadLetters},
		"DeadLetter.event": {"pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
	}}
	paths := object{}
	for i := range operations {
		o := &operations[i]
		one, err := s.operation(o)
		if err != nil {
			return nil, err
		}
		if paths[o.path] == nil {
			paths[o.path] = object{}
		}
		paths[o.path].(object)[o.method] = one
	}
	// The answers of a tail are no JSON as a whole.
	for _, t := range []reflect.Type{reflect.TypeFor[httpapi.TailEvent](), reflect.TypeFor[httpapi.LeftOut]()} {
		if _, err := s.ref(t); err != nil {
			return nil, err
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err = encoder.Encode(object{
		"openapi": "3.1.0",
		"info": object{"title": "bridge", "version": "1", "description": "What a running bridge answers. Members may be added; none is removed or changes its meaning. " +
			"A caller from another host needs the token of " + config.Naming("")(option.HTTPToken) + " where an operation names it; see docs/operations.md."},
		"paths":      paths,
		"components": object{"schemas": s.made, "securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}}},
	})
	return text.Bytes(), err
}

func (s *schemas) operation(o *operation) (object, error) {
	one := object{"operationId": o.id, "summary": o.summary}
	if len(o.parameters) > 0 {
		var list []object
		for _, p := range o.parameters {
			list = append(list, object{"name": p.name, "in": p.in, "required": p.in == "path", "description": p.doc, "schema": p.schema})
		}
		one["parameters"] = list
	}
	if o.guarded {
		// The empty one is for loopback.
		one["security"] = []object{{"token": []string{}}, {}}
	}
	if o.body != nil {
		schema, err := s.of(o.body)
		if err != nil {
			return nil, err
		}
		one["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": schema}}}
	}
	responses := object{}
	for status, answer := range o.all() {
		content, err := s.content(&answer)
		if err != nil {
			return nil, err
		}
		if status == 403 && o.changes {
			// A page of another site is refused by the library.
			content["text/plain"] = object{"schema": object{"type": "string"}}
		}
		responses[strconv.Itoa(status)] = object{"description": answer.doc, "content": content}
	}
	one["responses"] = responses
	return one, nil
}

// content returns the forms of an answer.
func (s *schemas) content(r *response) (object, error) {
	switch {
	case r.text != "":
		return object{r.text: object{"schema": object{"type": "string"}}}, nil
	case r.body == reflect.TypeFor[anything]():
		return object{"application/json": object{"schema": object{"type": "object"}}}, nil
	}
	schema, err := s.of(r.body)
	return object{"application/json": object{"schema": schema}}, err
}
