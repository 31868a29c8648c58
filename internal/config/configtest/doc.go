// Package configtest holds environments for tests that need a configuration.
package configtest
