package httpapi

import (
	_ "embed"
	"net/http"
)

// OpenAPI is the OpenAPI document of /api/v1, whose schemas are made of the types: see TestOpenAPI.
//
//go:embed openapi.json
var OpenAPI []byte

// openAPIHandler answers with the document.
func openAPIHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// The client may have gone.
		_, _ = w.Write(OpenAPI)
	})
}
