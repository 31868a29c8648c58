package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"bridge/source/mysql"
	"bridge/source/sqlite"
)

const (
	sourceVariable = prefix + "SOURCE_URL"
	mysqlExample   = "mysql://user:password@host:3306/database"
)

// source checks BRIDGE_SOURCE_URL. zone is BRIDGE_TIME_ZONE.
func (l *loader) source(zone *time.Location) Source {
	text := l.env[sourceVariable]
	if text == "" || l.has(sourceVariable) {
		return Source{}
	}
	scheme, _, ok := l.cutScheme(sourceVariable, text, sourceSchemes, mysqlExample)
	if !ok {
		return Source{}
	}
	if scheme == "sqlite" {
		return l.sqlite(text, zone)
	}
	options, err := parseMySQL(text)
	if err != nil {
		l.add(sourceVariable, "%v", err)
		return Source{}
	}
	options.Password = l.mysqlPassword()
	// It cannot fail so shortly after the parse; a file that changed meanwhile shows at the
	// connect.
	_, _ = options.Password()
	return Source{
		Scheme:   scheme,
		Addr:     net.JoinHostPort(options.Host, strconv.Itoa(cmp.Or(options.Port, 3306))),
		Database: options.Database,
		MySQL:    options,
	}
}

// sqlite checks sqlite:///path. Times without a zone are in zone.
func (l *loader) sqlite(text string, zone *time.Location) Source {
	options, err := sqlite.ParseURL(text)
	if err != nil {
		l.add(sourceVariable, "%v", err)
		return Source{}
	}
	options.TimeZone = zone
	file := filepath.Base(options.Path)
	return Source{
		Scheme: "sqlite", Addr: options.Path, Database: cmp.Or(strings.TrimSuffix(file, filepath.Ext(file)), file), SQLite: options,
	}
}

// mysqlPassword returns a function that returns the password of the URL as it is at each call. Of a
// file that changes, only the password is taken up.
func (l *loader) mysqlPassword() func() (string, error) {
	secret, secrets := l.secret(sourceVariable), l.secrets
	return func() (string, error) {
		text, err := secret()
		if err != nil {
			return "", err
		}
		options, err := parseMySQL(text)
		if err != nil {
			return "", fmt.Errorf("%s %w", sourceVariable, err)
		}
		if options.Password == nil {
			return "", nil
		}
		password, err := options.Password()
		secrets.add(password)
		return password, err
	}
}

// parseMySQL parses mysql://user:password@host:port/database?tls=…. The error quotes neither login
// nor host.
func parseMySQL(text string) (mysql.Options, error) {
	if u, err := url.Parse(text); err == nil && strings.ContainsAny(u.EscapedPath(), "@:") {
		// The password held a slash, which ended the host too early.
		return mysql.Options{}, fmt.Errorf("has an @ or a : after the host: write %s; %s", mysqlExample, encoding)
	}
	return mysql.ParseURL(text)
}

// checkTables finds a table that a stream has twice under different names.
func (l *loader) checkTables(cfg *Config) {
	for _, s := range cfg.Streams {
		known := make(map[string]bool)
		for _, table := range s.Tables {
			database, name := cfg.physical(table)
			if full := database + "." + name; known[full] {
				l.add(StreamPrefix(s.Name)+"TABLE", "names one table twice, with and without its database: name it once")
				break
			} else {
				known[full] = true
			}
		}
	}
}

// checkDatabase finds tables without a database where the URL names none either.
func (l *loader) checkDatabase(cfg *Config) {
	if cfg.Source.Scheme != "mysql" || cfg.Source.Database != "" {
		return
	}
	for _, s := range cfg.Streams {
		for _, table := range s.Tables {
			if !strings.Contains(table, ".") {
				l.add(sourceVariable, "names no database, and %sTABLE has a table without one: write %s, or db.table", StreamPrefix(s.Name), mysqlExample)
				return
			}
		}
	}
}
