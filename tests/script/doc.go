// Package script plays what tests write in words: steps between semicolons, each a name and its
// words. What a name does is the test's.
package script
