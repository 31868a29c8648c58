// Package failpoint lets tests kill, delay and break the program at points of its code.
//
// Only a build with the tag bridge_failpoints has failpoints. In a normal build [At], [Pass],
// [Shift] and [Mutant] are empty and inlined away, which a test of internal/acceptance verifies
// on the binary.
//
// # The list
//
// The environment variable BRIDGE_TEST_FAILPOINTS ([Variable]) names a file with a JSON list of
// [Action]. The program reads it again at most every 50 ms while it passes points, so that a test
// switches actions on and off: replace the file by renaming another one over it. A new list starts
// its counts from zero. An invalid list ends the process with status 2 and a message that names the
// variable, at the start and later.
//
// # Mutants
//
// The environment variable BRIDGE_TEST_MUTANT ([MutantVariable]) switches on one deliberate defect
// at the start; the program is then a mutant. Each defect is a condition in the code, [Mutant],
// which is a constant false in a normal build. What takes more than a line there is a function
// whose name begins with "mutant", in a file mutants.go.
package failpoint
