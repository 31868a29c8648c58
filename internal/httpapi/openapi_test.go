package httpapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/share"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/must"
)

var update = flag.Bool("update", false, "write the schemas of openapi.json, and its copy in docs")

// documented are the types of requests and answers that paths of openapi.json refer to.
var documented = []reflect.Type{
	reflect.TypeFor[Status](), reflect.TypeFor[Accepted](), reflect.TypeFor[Reloaded](), reflect.TypeFor[Paused](), reflect.TypeFor[RepublishRequest](), reflect.TypeFor[Republished](), reflect.TypeFor[ResendRequest](), reflect.TypeFor[resent](), reflect.TypeFor[ResentAll](),
	reflect.TypeFor[EntityPage](), reflect.TypeFor[Entity](), reflect.TypeFor[TailEvent](), reflect.TypeFor[LeftOut](), reflect.TypeFor[refused](),
}

// TestOpenAPI holds the schemas of the document against the types of requests and answers and their
// comments. Its paths are written by hand; tests hold each answer against them.
func TestOpenAPI(t *testing.T) {
	var document object
	numbers := json.NewDecoder(bytes.NewReader(OpenAPI))
	numbers.UseNumber()
	must.OK(t, numbers.Decode(&document))
	s := &schemas{t: t, comments: comments(t, map[string]string{
		".": "example.org/bridge/internal/httpapi", "../stream": "example.org/bridge/internal/stream", "../shard": "example.org/bridge/internal/shard", "../../reconcile": "example.org/bridge/reconcile",
		"../../source/ledger": "example.org/bridge/source/ledger", "../standby": "example.org/bridge/internal/standby", "../share": "example.org/bridge/internal/share", "../buscopy": "example.org/bridge/internal/buscopy",
	}), made: object{}}
	for _, one := range documented {
		s.ref(one)
	}
	document["components"].(object)["schemas"] = s.made
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	must.OK(t, encoder.Encode(document))
	for _, path := range []string{"openapi.json", "../../docs/openapi.json"} {
		if *update {
			must.OK(t, os.WriteFile(path, want.Bytes(), 0o644))
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s is not what the types say (%v): run go test ./internal/httpapi -run OpenAPI -update", path, err)
		}
	}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/(\w+)"`).FindAllSubmatch(want.Bytes(), -1) {
		if s.made[string(ref[1])] == nil {
			t.Errorf("no schema %s: add its type to documented", ref[1])
		}
	}
	if limit := fmt.Sprintf(`"maximum": %d,`, MaxEntities); !strings.Contains(want.String(), limit) {
		t.Errorf("the page of entities has not %s", limit)
	}
}

type object = map[string]any

// optional are members that a request may lack, narrower what members are checked for beside their
// types.
var (
	optional = []string{"ResendRequest.dryRun", "DeadLetter.row", "DeadLetter.type", "DeadLetter.previous", "DeadLetter.digest"}
	narrower = map[string]object{
		"ResendRequest.shard": {"minLength": 1}, "ResendRequest.letters": {"type": "array", "minItems": 1, "maxItems": MaxDeadLetters},
		"DeadLetter.event": {"pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
	}
)

// named are types of other packages that have another name in the document.
var named = map[reflect.Type]string{
	reflect.TypeFor[stream.StreamProgress](): "CatchUpStatus", reflect.TypeFor[shard.Status](): "ShardStatus", reflect.TypeFor[shard.Gaps](): "GapsStatus", reflect.TypeFor[ledger.Gap](): "GapStatus",
	reflect.TypeFor[shard.Published](): "PublishedStatus", reflect.TypeFor[shard.DeadLetters](): "DeadLettersStatus", reflect.TypeFor[shard.Backlog](): "BacklogStatus",
	reflect.TypeFor[standby.Status](): "StandbyStatus", reflect.TypeFor[standby.Waiting](): "WaitingMember", reflect.TypeFor[share.Share](): "ShareStatus", reflect.TypeFor[buscopy.Status](): "ProgressStatus",
	reflect.TypeFor[reconcile.Status](): "ReconcileStatus", reflect.TypeFor[reconcile.Report](): "ReconcileReport", reflect.TypeFor[reconcile.Difference](): "DifferenceStatus",
}

// schemas makes JSON Schemas of types, each struct once.
type schemas struct {
	t        *testing.T
	comments map[string]string
	made     object
}

func (s *schemas) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[null.Text]():
		return object{"type": []string{"string", "null"}}
	case reflect.TypeFor[null.Time]():
		return object{"type": []string{"string", "null"}, "format": "date-time"}
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	}
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		return object{"type": "integer"}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Pointer:
		one := s.of(t.Elem())
		if name, ok := one["type"].(string); ok {
			one["type"] = []string{name, "null"}
			return one
		}
		return object{"anyOf": []object{one, {"type": "null"}}}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": []string{"array", "null"}, "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.ref(t)
	}
	s.t.Fatalf("no schema for %s", t)
	return nil
}

func (s *schemas) ref(t reflect.Type) object {
	name, doc := strings.ToUpper(t.Name()[:1])+t.Name()[1:], s.comments[t.PkgPath()+"."+t.Name()]
	if elsewhere := named[t]; elsewhere != "" {
		name = elsewhere
	}
	ref := object{"$ref": "#/components/schemas/" + name}
	if s.made[name] != nil {
		return ref
	}
	made := object{"type": "object", "additionalProperties": false}
	s.made[name] = made
	properties, required := object{}, []string{}
	s.members(t, properties, &required)
	made["properties"], made["required"] = properties, required
	if doc != "" {
		made["description"] = name + strings.TrimPrefix(doc, t.Name())
	}
	return ref
}

// members adds the members of a struct, and those of structs that are embedded in it.
func (s *schemas) members(t reflect.Type, properties object, required *[]string) {
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-", !field.IsExported() && !field.Anonymous:
			continue
		case field.Anonymous && name == "":
			s.members(field.Type, properties, required)
			continue
		}
		one := s.of(field.Type)
		if doc := s.comments[t.PkgPath()+"."+t.Name()+"."+field.Name]; doc != "" {
			one["description"] = doc
		}
		maps.Copy(one, narrower[t.Name()+"."+name])
		properties[name] = one
		if !strings.HasPrefix(options, "omit") && !slices.Contains(optional, t.Name()+"."+name) {
			*required = append(*required, name)
		}
	}
}

// comments returns those of the types in packages by their folders, each in one line: of the type
// "example.org/bridge/internal/httpapi.Status", and with the name of a field behind a dot.
func comments(t *testing.T, packages map[string]string) map[string]string {
	all := make(map[string]string)
	add := func(name string, docs ...*ast.CommentGroup) {
		for _, doc := range docs {
			if all[name] == "" {
				all[name] = strings.Join(strings.Fields(doc.Text()), " ")
			}
		}
	}
	for folder, path := range packages {
		files := must.Get(filepath.Glob(filepath.Join(folder, "*.go")))(t)
		for _, file := range files {
			parsed := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution))(t)
			for _, decl := range parsed.Decls {
				group, ok := decl.(*ast.GenDecl)
				if !ok || group.Tok != token.TYPE {
					continue
				}
				for _, spec := range group.Specs {
					one := spec.(*ast.TypeSpec)
					name := path + "." + one.Name.Name
					add(name, one.Doc, group.Doc)
					if fields, ok := one.Type.(*ast.StructType); ok {
						for _, field := range fields.Fields.List {
							for _, ident := range field.Names {
								add(name+"."+ident.Name, field.Doc)
							}
						}
					}
				}
			}
		}
	}
	return all
}
