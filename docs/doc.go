// Package docs holds the documents, which a running bridge shows: the runbook above all.
package docs

import "embed"

// Files are the documents.
//
//go:embed *.md decisions/*.md
var Files embed.FS
