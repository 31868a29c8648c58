// Package failpoint lets tests kill, delay and break the program at points of its code. The program
// itself knows nothing of them: a faulty build (package faulty) has calls of [At], [Pass], [Shift]
// and [Mutant] in its functions.
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
// at the start; the program is then a mutant. Each defect is a condition, [Mutant]; docs/defects.md
// lists them, as tests/torture does.
package failpoint
