// Package way traces a row through the program: it builds it so that each function says when it is
// entered and left and what of the row it holds, has it publish a row from MariaDB to Kafka, and
// compares the functions that the row passes with those that docs/architecture.md lists.
//
// A row passes a function that gives it on: the row is in what the function returns, or in what a
// parameter or the receiver refers to and did not before, or another goroutine has it from there.
// So it passes those that have called such a function, too. A function that only looks at the row,
// as to see whether it is old enough, is none of them. A closure counts with the function around
// it, and functions of libraries do not count.
package way
