// Package contract describes the events of a configuration to those who consume them: as JSON
// Schemas and as an AsyncAPI document, from the columns that the tables have.
//
// The schemas are those of package event, with what is open there filled in: the type, the domain
// and a member for each column. They are open to further members: a column that is added to a table
// becomes one. They describe the format in which a stream publishes.
package contract
