//go:build !bridge_failpoints

package failpoint

import "time"

// At passes a point and returns the error that the list has for it.
func At(Point) error { return nil }

// Pass passes a point that cannot fail.
func Pass(Point) {}

// Shift passes a point that is a clock and returns by how much it is wrong.
func Shift(Point) time.Duration { return 0 }

// Mutant reports whether the program is to behave here as its defect says.
func Mutant(Defect) bool { return false }
