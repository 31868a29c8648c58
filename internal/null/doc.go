// Package null has texts and times that JSON shows as null where there is none.
//
// The status of the daemon has such members, whose owners would need pointers for that.
package null
