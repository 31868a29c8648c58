// Package apptest has a small database and the environment of a bridge that publishes it.
package apptest
