// Package failpoint has places in the program where tests end it, delay it, or let it fail.
//
// In a normal build there is nothing of it: [At], [Pass] and [Shift] are empty and inlined away, which a test of
// internal/acceptance holds against the binary. The build tag bridge_failpoints selects a build in which they look up the
// environment variable BRIDGE_TEST_FAILPOINTS ([Variable]).
//
// # The list
//
// The variable holds a list, or "file:" and the absolute path of a file that holds one. The file is looked at whenever a point is
// passed, at most every 50 ms, so that a test can switch points on and off while the program runs; replace it by renaming
// another one over it. A changed list begins anew with all its counts. The entries are parted by semicolons or line ends:
//
//	BeforePublish=kill@0.02; StoreSync=error(input/output error)*3
//	OwnerTurn=hang
//	DatabaseClock=shift(-5s)
//
// An entry is a [Point], an action, and optionally a probability (@0.02) and how often it acts at most (*3), in this order:
//
//	kill         SIGKILL to the process itself
//	error(text)  the point fails with this text; only where that is natural, see the points
//	sleep(2s)    the point takes this long
//	hang         the point takes until the list changes
//	shift(-5s)   the clock of the point is wrong by this much; DatabaseClock alone
//
// A list that cannot be read ends the process with status 2 and a message that names the variable, at the start and later.
package failpoint
