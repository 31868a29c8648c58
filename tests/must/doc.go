// Package must ends tests where what they stand on fails.
package must
