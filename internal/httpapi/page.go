package httpapi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"example.org/bridge/docs"
)

// pageFiles are the page for people: index.html, its style and its scripts. It gets what it shows
// from /api/v1/status.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy lets the page load its own style and scripts, and ask bridge.
var pagePolicy = strings.Join([]string{
	"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src data:",
	"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
}, "; ")

// pageHandler serves the page at /, its style and scripts below /page/, and the documents as HTML
// below /docs/, so that the runbook is at hand and is that of this version. A browser that has a
// file asks whether it has changed.
func pageHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := cmp.Or(strings.TrimPrefix(r.URL.Path, "/"), "page/index.html")
		var text []byte
		var err error
		kind := contentTypes[path.Ext(name)]
		if document, ok := strings.CutPrefix(name, "docs/"); ok {
			kind = contentTypes[".html"]
			text, err = documentHTML(document)
		} else {
			text, err = fs.ReadFile(pageFiles, name)
		}
		if err != nil {
			http.NotFound(w, r)
			return
		}
		sum := sha256.Sum256(text)
		h := w.Header()
		h.Set("Content-Type", kind)
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", `"`+base64.RawURLEncoding.EncodeToString(sum[:12])+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	})
}

var contentTypes = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}

// markdown reads the documents as their other readers do: with tables, and an anchor for each
// heading. What is HTML in them is left out.
var markdown = goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

const documentPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s – bridge</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/page/page.css">
</head>
<body>
<header><p><a href="/">bridge</a></p></header>
<main class="document">
%s</main>
</body>
</html>
`

// keepServed leaves links of a document of a folder to what is served, and has the text of other
// links and of pictures.
func keepServed(document ast.Node, folder string) error {
	var away []ast.Node
	err := ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		link, is := n.(*ast.Link)
		switch {
		case !entering:
		case is:
			target, _, _ := strings.Cut(string(link.Destination), "#")
			at := path.Join(folder, target)
			switch _, err := fs.Stat(docs.Files, at); {
			case target == "" || strings.Contains(target, "://"):
			case at == "openapi.json":
				link.Destination = []byte("/api/v1/openapi.json")
			case err != nil || path.Ext(at) != ".md":
				away = append(away, n)
			}
		case n.Kind() == ast.KindImage:
			away = append(away, n)
		}
		return ast.WalkContinue, nil
	})
	for _, n := range away {
		for n.HasChildren() {
			n.Parent().InsertBefore(n.Parent(), n, n.FirstChild())
		}
		n.Parent().RemoveChild(n.Parent(), n)
	}
	return err
}

func documentHTML(name string) ([]byte, error) {
	source, err := docs.Files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	document := markdown.Parser().Parse(text.NewReader(source))
	if err := keepServed(document, path.Dir(name)); err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, source, document); err != nil {
		return nil, err
	}
	title, _, _ := strings.Cut(strings.TrimPrefix(string(source), "# "), "\n")
	return fmt.Appendf(nil, documentPage, title, body.Bytes()), nil
}
