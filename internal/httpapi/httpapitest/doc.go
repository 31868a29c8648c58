// Package httpapitest has a daemon that says what a test wants it to say.
package httpapitest
