// Package processlist reads the sessions of a MySQL or MariaDB server.
package processlist
