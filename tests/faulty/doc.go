// Package faulty builds the program with the points and defects of package failpoint in it, for
// tests that kill it, delay it, set its clock wrong, or have to find what is wrong with it. The
// program's own source has nothing of them: edits.diff says where they go, and the go command puts
// them there in a build.
//
// mistakes.diff lists small mistakes, each with the tests that are to find it: they judge the tests
// (`make mistakes`).
package faulty
