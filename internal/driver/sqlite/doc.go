// Package sqlite is the driver of sqlite:, a file of SQLite.
package sqlite
