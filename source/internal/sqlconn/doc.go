// Package sqlconn runs small queries on connections of database/sql/driver, for the sources that
// read SQL databases.
package sqlconn
