package apidoc

import (
	"reflect"

	"bridge/internal/config"
	"bridge/internal/httpapi"
	"bridge/internal/option"
	"bridge/internal/shard"
)

// operation is a method of a path.
type operation struct {
	method, path, id, summary string
	parameters                []parameter
	// body is the type of the request, nil for none.
	body reflect.Type
	// answers are by status, beside those that guarded and forwarded ones have.
	answers map[int]response
	// guarded ones may need the token, forwarded ones may go to the process that works. changes
	// says that a page of another site is refused.
	guarded, forwarded, changes bool
}

// parameter is one of the path or of the query.
type parameter struct {
	name, in, doc string
	schema        object
}

// response is an answer: JSON of a type, or a text.
type response struct {
	doc  string
	body reflect.Type
	text string
}

// Resent is the answer to a request to send dead letters again.
type Resent struct {
	DeadLetters []shard.ResendOutcome `json:"letters"`
}

// Refused says why a request was refused.
type Refused struct {
	Error string `json:"error"`
}

// anything is the answer with this document.
type anything struct{}

var (
	stream  = parameter{"name", "path", "The name of a stream, as it is configured.", object{"type": "string"}}
	boolean = object{"type": "boolean"}
	count   = object{"type": "integer", "minimum": 0, "maximum": 1_000_000}
	serve   = config.Naming("")(option.Serve)
)

func refusal(doc string) response { return response{doc: doc, body: reflect.TypeFor[Refused]()} }

// operations are all of /api/v1.
var operations = []operation{
	{
		method: "get", path: "/api/v1/status", id: "status", summary: "What the process does.", forwarded: true,
		parameters: []parameter{
			{"working", "query", "Have the process of the standby group that works answer.", boolean},
			{"stream", "query", "List the shards of this stream alone.", object{"type": "string"}},
			{"state", "query", "List the shards in this state alone.", object{"type": "string"}},
			{"contains", "query", "List the shards alone whose names hold this text.", object{"type": "string"}},
			{"limit", "query", "How many shards of each stream to list, the worst first.", count},
			{"offset", "query", "How many of them to pass over.", count},
			{"examples", "query", "How many differences of each dry run to list.", count},
		},
		answers: map[int]response{200: {doc: "The status.", body: reflect.TypeFor[httpapi.Status]()}, 400: refusal("A wrong parameter.")},
	},
	{
		method: "post", path: "/api/v1/streams/{name}/reconcile", id: "reconcile", summary: "Request a reconcile of a stream.", guarded: true, forwarded: true, changes: true,
		parameters: []parameter{stream,
			{"dryRun", "query", "Publish nothing.", boolean}, {"allowDeletes", "query", "Publish deletes however many there are.", boolean}},
		answers: map[int]response{
			202: {doc: "It will be reconciled. The status says when it is done.", body: reflect.TypeFor[httpapi.Accepted]()},
			400: refusal("A wrong parameter."), 404: refusal("No such stream."), 409: refusal("Its tables cannot be reconciled now."),
		},
	},
	{
		method: "post", path: "/api/v1/streams/{name}/resend", id: "resend", summary: "Publish what is true now of rows that the bus has refused.", guarded: true, forwarded: true, changes: true,
		parameters: []parameter{stream}, body: reflect.TypeFor[httpapi.ResendRequest](),
		answers: map[int]response{
			200: {doc: "What became of each dead letter, in their order.", body: reflect.TypeFor[Resent]()},
			400: refusal("A wrong body, or a parameter."), 404: refusal("No such stream or table."), 409: refusal("The table is stopped, or has no dead letters."),
			413: refusal("The body is too long."), 504: refusal("It was not done within a minute."),
		},
	},
	{
		method: "post", path: "/api/v1/streams/{name}/resend-all", id: "resendAll", summary: "Publish what is true now of all rows of a stream that the bus has refused.",
		guarded: true, forwarded: true, changes: true, parameters: []parameter{stream, {"dryRun", "query", "Publish nothing.", boolean}},
		answers: map[int]response{
			200: {doc: "How many there were, what became of them, and the first ones.", body: reflect.TypeFor[httpapi.ResentAll]()},
			400: refusal("A wrong parameter."), 404: refusal("No such stream."), 409: refusal("There are none, or they cannot be sent now."),
			504: refusal("It was not done within a minute."),
		},
	},
	{
		method: "get", path: "/api/v1/streams/{name}/entities", id: "entities", summary: "A page of the entities of a capability stream, with " + serve + "=true.", guarded: true, forwarded: true,
		parameters: []parameter{stream,
			{"after", "query", "The next of the page before.", object{"type": "string"}},
			{"limit", "query", "How many entities at most.", object{"type": "integer", "minimum": 1, "maximum": httpapi.MaxEntities, "default": 100}}},
		answers: map[int]response{
			200: {doc: "The page.", body: reflect.TypeFor[httpapi.EntityPage]()},
			400: refusal("A wrong parameter."), 404: refusal("No such stream, or its entities are not served."),
		},
	},
	{
		method: "get", path: "/api/v1/streams/{name}/entities/{key}", id: "entity", summary: "An entity of a capability stream, with " + serve + "=true.", guarded: true, forwarded: true,
		parameters: []parameter{stream,
			{"key", "path", "The key as Kafka has it.", object{"type": "string"}},
			{"shard", "query", "The table, where each has entities of its own.", object{"type": "string"}}},
		answers: map[int]response{
			200: {doc: "What its row says now.", body: reflect.TypeFor[httpapi.Entity]()},
			400: refusal("A wrong parameter."), 404: refusal("It was not published, or is deleted, or is not served."),
		},
	},
	{
		method: "get", path: "/api/v1/streams/{name}/entity", id: "entityByKey", summary: "The same for every key, also an empty one, \".\" and \"..\", which are no parts of a path.", guarded: true, forwarded: true,
		parameters: []parameter{stream,
			{"key", "query", "The key as Kafka has it.", object{"type": "string"}},
			{"shard", "query", "The table, where each has entities of its own.", object{"type": "string"}}},
		answers: map[int]response{
			200: {doc: "What its row says now.", body: reflect.TypeFor[httpapi.Entity]()},
			400: refusal("A wrong parameter, or no key."), 404: refusal("It was not published, or is deleted, or is not served."),
		},
	},
	{
		method: "get", path: "/api/v1/tail", id: "tail", summary: "Events as the bus acknowledges them.", guarded: true, forwarded: true,
		parameters: []parameter{{"stream", "query", "Those of one stream.", object{"type": "string"}}},
		answers: map[int]response{
			200: {doc: "Server-Sent Events without an end: a TailEvent each; event: left with a LeftOut; event: end with a Refused before bridge stops.", text: "text/event-stream"},
			400: refusal("A wrong parameter."), 404: refusal("No such stream."),
		},
	},
	{
		method: "get", path: "/api/v1/openapi.json", id: "openapi", summary: "This document.",
		answers: map[int]response{200: {doc: "An OpenAPI document.", body: reflect.TypeFor[anything]()}},
	},
}

// all returns the answers of an operation by status.
func (o *operation) all() map[int]response {
	all := make(map[int]response)
	for status, one := range o.answers {
		all[status] = one
	}
	if o.guarded {
		all[401] = refusal("The token is missing, or is another one.")
		all[403] = refusal("The caller is not on loopback, and no token is set.")
		all[503] = refusal("The token cannot be read, too many ask, or the stream cannot answer now.")
	}
	if o.forwarded {
		all[421] = refusal("A request that was forwarded has met a process that does not work.")
		all[502] = refusal("The process that works was not reached.")
		all[503] = refusal("It cannot answer now: which process works is not known, too many ask, or the source is away. Retry-After may say when to ask again.")
	}
	return all
}
