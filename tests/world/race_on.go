//go:build race

package world

// RaceDetector says that the tests run with the race detector, and so does the program of
// TestWorld.
const RaceDetector = true
