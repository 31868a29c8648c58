// Package lineage tells whether the rows that the bus has of a stream are rows of the table that is
// read now. It needs no checkpoint: messages say of which form their digest is, when their row was
// made, and where it was read.
//
//   - [Scan] reads the newest messages of a stream, and [Newest.List] makes of them the list of
//     rows published last that a lost checkpoint had.
//   - [Compare] compares rows by their columns with the values of messages, where ids and digests
//     leave it open whether a row was updated or is another one.
//   - [Check] compares the tables of a source with what the bus has of them, before a process
//     publishes: a database that none of these rows is in is another one.
//
// What follows from a comparison is in package published; see decision 13.
package lineage
