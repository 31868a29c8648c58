package httpapitest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/tests/must"
)

// Checked holds the answers of h below /api against the OpenAPI document. A difference fails the
// test.
func Checked(t testing.TB, h http.Handler) http.Handler {
	t.Helper()
	document := must.Get(published())(t)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/api/") {
			h.ServeHTTP(w, r)
			return
		}
		copied := &copying{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(copied, r)
		if err := document.check(r.Method, r.URL.EscapedPath(), copied.status, w.Header(), copied.body.Bytes()); err != nil {
			t.Error(err)
		}
	})
}

type copying struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (c *copying) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *copying) Write(p []byte) (int, error) {
	c.body.Write(p)
	return c.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (c *copying) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// answers holds answers against the OpenAPI document. It is safe for concurrent use.
type answers struct {
	document map[string]any
	compiler *jsonschema.Compiler

	mu   sync.Mutex
	seen map[string]*jsonschema.Schema
}

const resource = "openapi.json"

var published = sync.OnceValues(func() (*answers, error) {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(httpapi.OpenAPI))
	if err != nil {
		return nil, err
	}
	a := &answers{document: parsed.(map[string]any), compiler: jsonschema.NewCompiler(), seen: make(map[string]*jsonschema.Schema)}
	a.compiler.AssertFormat()
	return a, a.compiler.AddResource(resource, parsed)
})

// check returns what is wrong with an answer: with what the router itself answers nothing is.
func (a *answers) check(method, path string, status int, header http.Header, body []byte) error {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("%s %s: status %d: %w", method, path, status, err)
	}
	if kind == "text/plain" && (status == http.StatusNotFound || status == http.StatusMethodNotAllowed) {
		return nil
	}
	template, ok := a.template(path)
	if !ok {
		return fmt.Errorf("%s has no entry in internal/httpapi/openapi.json", path)
	}
	if method == http.MethodHead {
		method, body = http.MethodGet, nil
	}
	if err := a.checkBody([]string{"paths", template, strings.ToLower(method), "responses", strconv.Itoa(status), "content", kind, "schema"}, kind, body); err != nil {
		return fmt.Errorf("%s %s: status %d: %w", method, template, status, err)
	}
	return nil
}

func (a *answers) template(path string) (string, bool) {
	got := strings.Split(path, "/")
	for template := range a.document["paths"].(map[string]any) {
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

func (a *answers) checkBody(at []string, kind string, body []byte) error {
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

func (a *answers) checkEvents(body []byte) error {
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

func (a *answers) schema(at []string) (*jsonschema.Schema, error) {
	var pointer strings.Builder
	pointer.WriteString(resource + "#")
	here := any(a.document)
	for _, name := range at {
		inner, _ := here.(map[string]any)
		if here = inner[name]; here == nil {
			return nil, fmt.Errorf("the document has no %s there: add it to internal/httpapi/openapi.json", name)
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
		return fmt.Errorf("%w in %.2000s (go test ./internal/httpapi -run OpenAPI -update writes what the types have)", err, body)
	}
	return nil
}
