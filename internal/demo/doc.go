// Package demo is what surrounds bridge in `bridge demo`: a shop that writes to an SQLite database,
// a screen that shows the events of a subscriber, and at the end what package verify says about
// tables and events. [Stage] runs them around a bridge that cmd/bridge has configured and opened.
//
// The tables of the shop show every way in which bridge notices a change:
//
//   - products: updated in place, replaced under a new id, deleted by a column; a MODIFIED column
//     lets the second cursor find updates.
//   - stock: no MODIFIED column; rows are replaced, updated in place and deleted for good, which a
//     reconcile finds.
//   - orders: a log. A checkout draws the id of an order before it is paid, so that a slow payment
//     commits a row late.
package demo
