// Package httpapi has the HTTP server of a running bridge and its client.
//
// The server answers /livez, /readyz, /metrics and /api/v1/status, shows entities where it is asked
// to and events as they are published, and takes requests for a reconcile and for dead letters to
// be sent again. It gets its answers from a [Daemon], and [Access] says who may ask for what. At /
// it has a page for people, which shows what the status says. The commands health, status, tail,
// reconcile and deadletter use the client. Both sides share the JSON types; other programs rely on
// their members.
package httpapi

import _ "embed"

// OpenAPI is the OpenAPI document of /api/v1, whose schemas are made of the types: see TestOpenAPI.
//
//go:embed openapi.json
var OpenAPI []byte
