// Package sqltable has what sources of SQL databases know about tables: their columns and indexes
// as a database describes them, which of them a stream reads, and what is wrong with them. [Query]
// runs small queries.
//
// What is wrong is a finding of `bridge check`. The first finding that keeps a stream from being
// read is also the error of its reads ([Inspection.Refusal]), so both say the same.
package sqltable
