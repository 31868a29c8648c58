// Package mysql is the driver of mysql:, for MySQL and MariaDB.
package mysql
