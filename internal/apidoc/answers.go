package apidoc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"bridge/internal/httpapi"
)

// Answers holds answers against the document of package httpapi. It is safe for concurrent use.
type Answers struct {
	doc      object
	compiler *jsonschema.Compiler

	mu   sync.Mutex
	seen map[string]*jsonschema.Schema
}

const resource = "openapi.json"

// Published has the document that the program has.
var Published = sync.OnceValues(func() (*Answers, error) { return newAnswers(httpapi.OpenAPI) })

func newAnswers(text []byte) (*Answers, error) {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	a := &Answers{compiler: jsonschema.NewCompiler(), seen: make(map[string]*jsonschema.Schema)}
	a.compiler.AssertFormat()
	if err := json.Unmarshal(text, &a.doc); err != nil {
		return nil, err
	}
	return a, a.compiler.AddResource(resource, parsed)
}

// Check returns what is wrong with an answer: with what the router itself answers nothing is.
func (a *Answers) Check(method, path string, status int, header http.Header, body []byte) error {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("%s %s: status %d: %w", method, path, status, err)
	}
	if kind == "text/plain" && (status == http.StatusNotFound || status == http.StatusMethodNotAllowed) {
		return nil
	}
	template, ok := a.template(path)
	if !ok {
		return fmt.Errorf("%s has no entry in operations of internal/apidoc", path)
	}
	if method == http.MethodHead {
		method, body = http.MethodGet, nil
	}
	if err := a.check([]string{"paths", template, strings.ToLower(method), "responses", strconv.Itoa(status), "content", kind, "schema"}, kind, body); err != nil {
		return fmt.Errorf("%s %s: status %d: %w", method, template, status, err)
	}
	return nil
}

// template returns the path of the document that path is of.
func (a *Answers) template(path string) (string, bool) {
	got := strings.Split(path, "/")
	for template := range a.doc["paths"].(object) {
		want := strings.Split(template, "/")
		fits := len(got) == len(want)
		for i := 0; fits && i < len(got); i++ {
			fits = got[i] == want[i] || strings.HasPrefix(want[i], "{")
		}
		if fits {
			return template, true
		}
	}
	return "", false
}

func (a *Answers) check(at []string, kind string, body []byte) error {
	schema, err := a.schema(at)
	switch {
	case err != nil:
		return err
	case kind == "text/event-stream":
		return a.checkEvents(body)
	case kind != "application/json" || body == nil:
		return nil
	}
	return validate(schema, body)
}

// checkEvents checks Server-Sent Events.
func (a *Answers) checkEvents(body []byte) error {
	lines, kind := bufio.NewReader(bytes.NewReader(body)), ""
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			kind = strings.TrimSpace(name)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		name := map[string]string{"": "TailEvent", "left": "LeftOut", "end": "Refused"}[kind]
		schema, err := a.schema([]string{"components", "schemas", name})
		if err == nil {
			err = validate(schema, []byte(data))
		}
		if err != nil {
			return err
		}
		kind = ""
	}
}

// schema returns the schema that the names lead to.
func (a *Answers) schema(at []string) (*jsonschema.Schema, error) {
	var pointer strings.Builder
	pointer.WriteString(resource + "#")
	here := any(a.doc)
	for _, name := range at {
		inner, _ := here.(object)
		if here = inner[name]; here == nil {
			return nil, fmt.Errorf("the document has no %s there: add it to operations of internal/apidoc", name)
		}
		pointer.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(name))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.seen[pointer.String()]; known != nil {
		return known, nil
	}
	schema, err := a.compiler.Compile(pointer.String())
	a.seen[pointer.String()] = schema
	return schema, err
}

func validate(schema *jsonschema.Schema, body []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		return fmt.Errorf("%w in %.2000s (go test ./internal/apidoc -update writes what the types have)", err, body)
	}
	return nil
}
