// Command lint holds the rules of this code base that no kept linter has: the size of types,
// retired words, the width of comments, tests that sleep, and promises without a test. It reads the
// Go files and Markdown pages that git tracks in the current directory, prints one line a finding,
// and ends with status 1 if there is one. What is excepted, and why, is in exceptions.go.
//
//	go run ./tests/lint
//
// With -words it counts the words of pages instead.
package main
