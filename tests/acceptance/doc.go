// Package acceptance tests the program as its users run it: the built binary, real servers,
// consumers that share no code with it, faults that come from outside. It holds nothing but tests.
package acceptance
